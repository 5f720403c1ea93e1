"""The page's numbers are those of Python: of the same draws, for settings that nobody chose."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from open_weights import open_study
from planned import CANDIDATES, DRAWS, OBJECTIVE, SEED, random_settings
from scripts import in_engine
from synthetic import lab, lab_posterior, prior_as_posterior

from bayes_cpt import Posterior, bands, read_plan
from bayes_cpt.decisions.final_losses import FinalLosses
from bayes_cpt.decisions.objective import Objective, read_objective
from bayes_cpt.decisions.search_space import Candidates, SearchSpace
from bayes_cpt.decisions.space import Space
from bayes_cpt.decisions.valuation import Valuation
from bayes_cpt.errors import BayesCPTError, SpecError
from bayes_cpt.laws.schedule_ends import DECAYS, ScheduleBatch
from bayes_cpt.laws.term import Parameter
from bayes_cpt.model.law_table import LawTable
from bayes_cpt.model.spec import read_spec
from bayes_cpt.planner.choices import FIRST, Alternatives, Controls, lower_hull
from bayes_cpt.planner.law import law_code
from bayes_cpt.planner.page import Planner
from bayes_cpt.study.ranges import outside_range

COMPUTED = """(() => {
  const planner = opened(given.data);
  return given.settings.map((setting) => {
    const found = outcome(planner, setting, {});
    const { grid } = found.run;
    return { ...found, run: undefined, grid, plan: planText(planner, setting) };
  });
})()"""
COUNT = 12
CLOSE = 1e-6


def computed(planner: Planner, settings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what the page computes of settings."""
    given = {"data": planner.data, "settings": settings}
    found: list[dict[str, Any]] = in_engine(planner.script(), COMPUTED, given)
    return found


def plan_of(found: list[dict[str, Any]], folder: Path) -> Path:
    """Return the plans of all settings as one file."""
    path = folder / "plan.toml"
    texts = [own["plan"].replace("runs.planned", f"runs.r{i}") for i, own in enumerate(found)]
    path.write_text("\n".join(texts))
    return path


def assert_bands_are_those_of_predict(
    posterior: Posterior, planner: Planner, settings: list[dict[str, Any]], folder: Path
) -> list[dict[str, Any]]:
    """Hand the plans to what `predict` calls, and compare its bands with the page's."""
    found = computed(planner, settings)
    plan, seed = plan_of(found, folder), planner.data["about"]["seed"]
    for kind in ("new_run", "expected"):
        table = bands(posterior, plan, kind, draws=DRAWS, seed=seed, cores=1)
        for i, (setting, own) in enumerate(zip(settings, found, strict=True)):
            if setting["kind"] != kind:
                continue
            for place, domain in enumerate(posterior.frame.domains):
                rows = table[(table["run"] == f"r{i}") & (table["domain"] == domain)]
                assert rows["step"].tolist() == own["grid"]
                outer_low, _, median, _, outer_high = own["bands"][place]
                for name, values in (
                    ("lower", outer_low),
                    ("median", median),
                    ("upper", outer_high),
                ):
                    np.testing.assert_allclose(values, rows[name], rtol=0, atol=CLOSE)
                last = rows.iloc[-1]
                for name, value in own["summaries"][place].items():
                    assert value == pytest.approx(last[name], rel=0, abs=CLOSE)
    return found


def test_bands_and_plans_are_those_of_predict(planner: Planner, tmp_path: Path) -> None:
    settings = random_settings(planner, COUNT, seed=0)
    found = assert_bands_are_those_of_predict(lab_posterior(), planner, settings, tmp_path)
    plan = read_plan(plan_of(found, tmp_path), lab())
    for i, own in enumerate(found):
        outside = [note.replace(",000 steps", "000 steps") for note in own["outside"]]
        assert outside == outside_range(lab(), plan, plan.run(f"r{i}"))


def candidates_of(planner: Planner, settings: list[dict[str, Any]]) -> Candidates:
    """Return settings as the search of `decide` has them, whose areas are in closed form."""
    bases = Controls.of(lab()).bases
    table = pd.DataFrame(settings)
    initial = np.array([bases[own].schedule.final for own in table["base"]])
    peak, steps = table["peak"].to_numpy(), table["steps"].to_numpy()
    warmup = np.minimum(np.round(table["warmup"].to_numpy() * steps), steps - 1)
    warmup = np.where(initial == peak, 0, warmup).astype(np.int64)
    schedules = ScheduleBatch(
        initial=initial,
        peak=peak,
        final=table["final"].to_numpy() * peak,
        warmup_steps=warmup,
        decay_steps=np.round(table["decay"].to_numpy() * (steps - warmup)).astype(np.int64),
        steps=steps,
        shape=np.array([DECAYS.index(own) for own in table["shape"]]),
    )
    nowhere = np.zeros((len(settings), 0))
    replay = table["replay"].to_numpy()
    first = np.zeros(len(settings), dtype=np.int64)
    return Candidates(bases, table["base"].to_numpy(), replay, schedules, nowhere, ({},), first)


def test_regret_and_constraints_are_those_of_decide(planner: Planner) -> None:
    posterior = lab_posterior()
    settings = random_settings(planner, COUNT, seed=1)
    found = computed(planner, settings)
    model, controls = FinalLosses.of(posterior, DRAWS, SEED), Controls.of(lab())
    valuation = Valuation.of(model, OBJECTIVE, SearchSpace.of(Space(), lab()))
    block = model.at(candidates_of(planner, settings))
    losses = block.losses
    breaches = valuation.breaches(block)
    # Of an expected loss the page counts draws of the law alone, without what the law misses.
    whole = [own.kind == "new_run" for own in OBJECTIVE.constraints]
    assert any(whole)
    for i, (setting, own) in enumerate(zip(settings, found, strict=True)):
        np.testing.assert_allclose(own["means"], losses[:, i].mean(axis=1), rtol=0, atol=CLOSE)
        np.testing.assert_allclose(
            np.array(own["breaches"])[whole], breaches[whole, i], rtol=0, atol=CLOSE
        )
        weight = setting["weight"]
        values = weight * losses[0, i] + (1 - weight) * losses[1, i]
        if i % 4 == 0:
            others = Alternatives.of(model, controls, setting["steps"], CANDIDATES, SEED)
            discrepancy = np.tensordot((weight, 1 - weight), block.discrepancy[:, i], axes=1)
            best = (weight * others.losses[0] + (1 - weight) * others.losses[1]).min(axis=0)
            wanted = max((values + discrepancy - best).mean(), 0.0)
            assert own["regret"] == pytest.approx(wanted, rel=0, abs=CLOSE)
            means = others.losses.mean(axis=2)
            lowest = (weight * means[0] + (1 - weight) * means[1])[others.front()].min()
            left = max(wanted - max(values.mean() - lowest, 0.0), 0.0)
            assert own["unavoidable"] == pytest.approx(left, rel=0, abs=CLOSE)


@pytest.mark.parametrize("model", ["cpt", "cpt-replay-printed"])
@pytest.mark.usefixtures("few_candidates")
def test_other_models_have_their_own_law_in_the_page(model: str, tmp_path: Path) -> None:
    study = lab() if model != "cpt" else lab().subset(["r25_cos", "r25_lin05", "r25_a0_rewarm"])
    posterior = prior_as_posterior(study, model)
    page = Planner.of(posterior, read_objective("balanced"), draws=DRAWS, candidates=CANDIDATES)
    assert_bands_are_those_of_predict(posterior, page, random_settings(page, 4, seed=2), tmp_path)


@pytest.mark.usefixtures("few_candidates")
def test_an_open_weights_base_has_a_page(tmp_path: Path) -> None:
    posterior = prior_as_posterior(open_study())
    page = Planner.of(posterior, read_objective("balanced"), draws=DRAWS, candidates=CANDIDATES)
    assert_bands_are_those_of_predict(posterior, page, random_settings(page, 4, seed=4), tmp_path)


def test_no_move_of_a_control_betters_the_best_setting(planner: Planner) -> None:
    (setting,) = random_settings(planner, 1, seed=5)
    free = {**setting, "constraints": []}
    strict = {**setting, "constraints": [{**setting["constraints"][0], "rise": 0.02}]}
    expression = """(() => {
      const planner = opened(given.data);
      return given.settings.map((own) => bestSetting(planner, own));
    })()"""
    data, wanted = planner.data, strict["constraints"][0]["probability"]
    given = {"data": data, "settings": [free, strict]}
    best, kept = in_engine(planner.script(), expression, given)
    front = data["alternatives"][data["lengths"].index(setting["steps"])]["front"]
    weights = np.array([setting["weight"], 1 - setting["weight"]])
    # Values of the front are of settings that the sliders cannot show.
    assert best["value"] < (weights @ [front["general"], front["target"]]).min() + 1e-3
    assert (best["excess"], kept["excess"]) == (0, 0)
    assert kept["value"] > best["value"]
    moved = [
        {**own["setting"], name: value}
        for own in (best, kept)
        for name, slider in data["ranges"].items()
        for value in own["setting"][name] + np.array([-slider["step"], slider["step"]])
        if slider["lowest"] <= value <= slider["highest"]
    ]
    for own, found in zip(moved, computed(planner, moved), strict=True):
        value = weights @ found["means"]
        if not own["constraints"]:
            assert value > best["value"] - CLOSE
        elif found["breaches"][0] <= wanted:
            assert value > kept["value"] - CLOSE


def test_a_study_without_measured_bases_is_refused() -> None:
    unmeasured = replace(lab(), losses=lab().losses.query("step > 0"))
    unmeasured = unmeasured.subset([run.name for run in unmeasured.continual_runs])
    with pytest.raises(SpecError, match="no base was measured"):
        Controls.of(unmeasured)


def test_the_page_is_one_file_that_asks_for_nothing(planner: Planner) -> None:
    html = planner.html()
    assert html.startswith("<!DOCTYPE html>")
    assert "default-src 'none'" in html
    for forbidden in ("src=", "@import", "url(", "fetch(", "XMLHttpRequest", "import("):
        assert forbidden not in html
    addresses = {word for word in html.split('"') if word.startswith(("http:", "https:"))}
    # The name of a language, which no browser looks up.
    assert addresses == {"http://www.w3.org/2000/svg"}


def test_names_of_a_study_do_not_become_markup(planner: Planner) -> None:
    data = planner.data | {"domains": ["<b>x</b>", "</script><script>alert(1)</script>"]}
    html = Planner(data, planner.codes, planner.equations).html()
    assert "<b>x</b>" not in html
    assert "alert(1)</script>" not in html


def test_an_untrustworthy_fit_says_so(planner: Planner) -> None:
    data = planner.data | {"about": planner.data["about"] | {"doubts": ["It does not fit <x>."]}}
    assert "It does not fit &lt;x&gt;." in Planner(data, planner.codes, planner.equations).html()
    assert planner.data["about"]["doubts"] == []


@pytest.mark.parametrize(
    ("model", "objective", "said"),
    [
        ("pretrain", read_objective("balanced"), "no CPT phase"),
        (
            "cpt-replay",
            Objective.model_validate(
                {"weights": {"far": 1.0}, "mixtures": {"far": {"general": -0.5, "target": 1.5}}}
            ),
            "negative weight",
        ),
    ],
)
def test_what_cannot_be_balanced_is_refused(model: str, objective: Objective, said: str) -> None:
    with pytest.raises(BayesCPTError, match=said):
        Planner.of(lab_posterior(model), objective, draws=DRAWS, candidates=CANDIDATES)


LOSSES = st.lists(st.tuples(st.floats(1, 9), st.floats(1, 9)), min_size=1, max_size=40)


@given(LOSSES, st.floats(0, 1))
def test_the_hull_has_the_lowest_of_every_weighting(
    losses: list[tuple[float, float]], weight: float
) -> None:
    first, second = np.array(losses).T
    hull = lower_hull(first, second)
    lowest = (weight * hull[:, 0] + (1 - weight) * hull[:, 1]).min()
    np.testing.assert_allclose(lowest, (weight * first + (1 - weight) * second).min(), atol=1e-12)
    assert len(hull) <= len(losses)


def test_what_is_kept_is_as_good_as_all_that_was_looked_at() -> None:
    model, controls = FinalLosses.of(lab_posterior(), DRAWS), Controls.of(lab())
    few = Alternatives.of(model, controls, 3000, CANDIDATES, seed=0)
    # The first look alone: those about the best can only gain on it.
    first = SearchSpace.of(controls.space(3000), lab()).sample(int(FIRST * CANDIDATES), 0)
    block = model.at(first)
    every = block.losses + block.discrepancy
    for weight in (0.0, 0.25, 0.5, 1.0):
        lowest = (weight * every[0] + (1 - weight) * every[1]).min(axis=0)
        kept = (weight * few.losses[0] + (1 - weight) * few.losses[1]).min(axis=0)
        assert np.all(kept <= lowest + 1e-4)
    front = few.losses.mean(axis=2)[:, few.front()]
    assert np.all(np.diff(front[0]) > 0)
    assert np.all(np.diff(front[1]) < 0)


@dataclass(frozen=True)
class Weekday:
    """A term that takes of a run what the page does not know."""

    name: str = "weekday"

    def parameters(self) -> dict[str, Parameter]:
        return {"offset_time": Parameter("stands for one")}

    def coefficients(self, parameters: Any, reference: Any, xp: Any) -> dict[str, Any]:
        return {"D": parameters["offset_time"]}

    def loss(self, points: Any, coefficients: Any, xp: Any) -> Any:
        return coefficients["D"] * points.weekday


def test_a_term_unknown_to_the_page_is_refused_in_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    build = LawTable.build

    def with_weekday(*given: Any) -> Any:
        law = build(*given)
        return replace(law, terms=(*law.terms, Weekday()))

    with pytest.raises(
        SpecError, match="its law takes the batch size and the model size, which the"
    ):
        law_code(read_spec("cpt-replay-sizes"), "general", "law")
    spec = read_spec("cpt-replay")
    monkeypatch.setattr(LawTable, "build", with_weekday)
    with pytest.raises(SpecError) as caught:
        law_code(spec, "general", "law")
    (problem,) = caught.value.problems
    assert problem.place == "model cpt-replay"
    assert "weekday" in problem.problem
    assert "predict" in problem.fix
