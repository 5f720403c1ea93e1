"""Values of runs: against nested simulation by the likelihood of curves, and in their tables and words."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from dense_residuals import fluctuation_covariance, misfit_covariance, walk
from few_free import all_but_known
from synthetic import lab, lab_posterior, prior_as_posterior

from bayes_cpt import Posterior, decide, next_run
from bayes_cpt.arrays import Floats
from bayes_cpt.decisions import final_losses
from bayes_cpt.decisions import next_run as module
from bayes_cpt.decisions.final_losses import FinalLosses
from bayes_cpt.decisions.next_run import REPLAYS, Affordable, RunValues
from bayes_cpt.decisions.objective import read_objective
from bayes_cpt.errors import StudyError
from bayes_cpt.forecast.plans import denser_early, with_base_losses
from bayes_cpt.identify.determination import Facts
from bayes_cpt.model.discrepancy import ErrorCorrelation
from bayes_cpt.model.evaluate import Draws, scales_of
from bayes_cpt.model.residuals import ONSET_SHARE
from bayes_cpt.model.simulate import expected_loss

SPACE = {"bases": "stable_12k", "replay": {"low": 0.0, "high": 0.8}, "relative_peak": 1.0}
HALF = """
phase = "cpt"
base = "stable_12k"
replay = 0.5
schedule = [ { shape = "cosine", steps = 400, start = 0.002, end = 0 } ]
"""
PROBES = f"""
[runs.cheap]{HALF}
[runs.dear]{HALF}cost = 4000
[runs.other]
phase = "cpt"
base = "annealed_0pct"
replay = 0.0005
schedule = [ {{ shape = "linear", steps = 300, start = 0, end = 0.001 }} ]
"""


@cache
def small_case() -> Posterior:
    """Return a posterior in which only what replay does is unknown, widely."""
    wide = prior_as_posterior(lab(), draws=500, spread=1.0)
    own, name = wide.tree["posterior"], "saturation_exponent"
    middle = own[name].median(("chain", "draw"))
    # Where it is wilder a run with hardly any replay tells of it too.
    own[name] = 0.35 * (own[name] - middle) / own[name].std() + middle
    return all_but_known(wide, ("replay_quarter", "replay_dilution", "saturation_exponent"))


@pytest.fixture(scope="module")
def probes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("probes") / "probes.toml"
    path.write_text(PROBES, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def found(probes: Path) -> RunValues:
    return next_run(lab_posterior(), "balanced", SPACE, probes, draws=600, candidates=64)


def log_likelihoods(posterior: Posterior, found: RunValues, name: str, data: Floats) -> Floats:
    """Return the log density of each data set in each draw, shape (data sets, draws), but for a constant.

    By the dense covariance of every curve in every draw.
    """
    frame, parameters = posterior.frame, found.valuation.model.laws[0].draws.parameters
    plan = found.affordable.plan
    target, run = with_base_losses(posterior.study, frame.domains, plan), plan.run(name)
    at = denser_early(run.schedule.steps, module.CHECKPOINTS)
    curves = frame.curves(target, lambda *_: at, [run])
    mean = expected_loss(frame, parameters, curves)
    scales = scales_of(curves, Draws.of(frame, parameters, curves.points.form))
    fluctuation, memory, misfit = scales.fluctuation, scales.memory, scales.misfit
    total = np.zeros((len(data), len(mean)))
    for curve in range(len(curves.curves)):
        rows = np.flatnonzero(curves.points.curve_index == curve)
        steps = curves.points.steps[rows]
        onset = ONSET_SHARE * frame.reference.steps
        shape = misfit_covariance(steps, onset, **walk(frame.spec, continual=True))
        for draw in range(len(mean)):
            of_memory = fluctuation_covariance(steps, memory[draw, rows[0]], starts_at_0=True)
            sizes = (own[draw, rows] for own in (fluctuation, misfit))
            of_fluctuation, of_misfit = (np.outer(size, size) for size in sizes)
            factor = np.linalg.cholesky(of_fluctuation * of_memory + of_misfit * shape)
            white = np.linalg.solve(factor, (data[:, rows] - mean[draw, rows]).T)
            total[:, draw] -= 0.5 * (white**2).sum(axis=0) + np.log(np.diag(factor)).sum()
    return total


def test_values_meet_nested_simulation(monkeypatch: pytest.MonkeyPatch, probes: Path) -> None:
    """With few checkpoints, so that the draws near a curve are many.

    The likelihood of a curve says what it tells of the law. What it tells of the misfit that it shares with
    other runs and other losses comes on top: here it shares none.
    """
    monkeypatch.setattr(module, "CHECKPOINTS", 6)
    monkeypatch.setattr(FinalLosses, "innovations", lambda *_: None)
    monkeypatch.setattr(final_losses, "error_correlation", lambda _: ErrorCorrelation(0.0, 0.0))
    posterior = small_case()
    found = next_run(posterior, "balanced", SPACE, probes, draws=1000, candidates=32)
    model, plan, simulated = found.valuation.model, found.affordable.plan, {}
    for index, run in enumerate(plan.runs):
        target = with_base_losses(lab(), model.domains, plan)
        at = denser_early(run.schedule.steps, 6)
        simulated[run.name] = model.simulated(target, run, at, np.random.default_rng([0, index]))
    losses = model.each(found.candidates, found.valuation.expected).T
    outer = np.random.default_rng(0).choice(len(losses), 240, replace=False)
    worth = {}
    for name in ("cheap", "other"):
        weights = log_likelihoods(posterior, found, name, simulated[name][outer])
        weights = np.exp(weights - weights.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        effective = 1.0 / (weights**2).sum(axis=1)
        assert np.median(effective) > 100
        after = weights @ losses
        gains = after[:, found.now] - after.min(axis=1)
        worth[name], own = gains.mean(), found.values[name]
        spread = np.hypot(gains.std() / np.sqrt(outer.size), own.error)
        # Few effective draws make the nested value rather too high.
        assert own.value <= worth[name] + 2.5 * spread
        assert own.value >= 0.85 * worth[name] - 2.5 * spread
    # A run at half replay tells most of what is unknown, one with hardly any replay next to nothing.
    assert worth["cheap"] > 0.5 * found.perfect[0]
    assert worth["other"] < 0.01 * found.perfect[0]


def test_runs_are_worth_no_more_than_perfect_information(found: RunValues) -> None:
    perfect, error = found.perfect
    assert perfect > 0
    for own in found.values.values():
        assert own.value >= -3 * own.error
        assert own.value <= perfect
    asked = decide(lab_posterior(), "balanced", SPACE, draws=600, candidates=64)
    assert (perfect, error) == asked.information
    assert found.candidates.run(found.now, "x") == asked.chosen.run(0, "x")


def test_the_table_ranks_by_value_per_cost(found: RunValues) -> None:
    table = found.table()
    assert table["run"].tolist() == found.order
    assert table["per_1000_steps"].is_monotonic_decreasing
    rows = table.set_index("run")
    assert rows["cost"].to_dict() == {"cheap": 400.0, "dear": 4000.0, "other": 300.0}
    for name, row in rows.iterrows():
        assert row["value"] == found.values[str(name)].value
        assert row["per_1000_steps"] == pytest.approx(1000 * row["value"] / row["cost"])
        assert row["share"] == pytest.approx(row["value"] / found.perfect[0])
        shares = zip(found.told[str(name)].share, found.quantities, strict=True)
        effects = {own: share for share, own in shares if own[0].endswith(("_effect", "_change"))}
        assert effects[row["about"], row["on"]] == max(effects.values())


def test_the_same_run_at_ten_times_the_cost_is_worth_as_much(found: RunValues) -> None:
    cheap, dear = found.values["cheap"], found.values["dear"]
    assert dear.value == pytest.approx(cheap.value, abs=4 * np.hypot(cheap.error, dear.error))
    assert found.hurdle("dear") > found.hurdle("cheap")


def test_information_is_listed_for_every_quantity(found: RunValues) -> None:
    table = found.information_table()
    assert len(table) == 3 * len(found.quantities)
    assert {"B", "lambda", "replay_effect", "length_effect"} <= set(table["quantity"])
    own = table[table["run"] == "cheap"].set_index(["quantity", "domain"])
    for index, label in enumerate(found.quantities):
        assert own.loc[label, "variance"] == found.told["cheap"].share[index]
    assert np.all(table["nats"] >= 0)


def test_an_end_of_the_space_is_named_beside_a_settled_choice(probes: Path) -> None:
    space = SPACE | {"replay": {"low": 0.0, "high": 0.1}}
    own = next_run(lab_posterior(), "balanced", space, probes, draws=100, candidates=64)
    (edge,) = own.edges
    assert edge[:3] == ("replay", "highest", 0.1)
    words = "lies at or beyond" if edge.share >= 0.9 else "is"
    named = f"the best replay ratio {words} 0.1, the highest allowed" in own.verdict()[2]
    assert named == ("only cheaper runs" in own.verdict()[2])


def test_a_price_in_the_objective_is_the_hurdle(probes: Path) -> None:
    objective = read_objective({"preset": "balanced", "cost_per_1000_steps": 0.01})
    own = next_run(lab_posterior(), objective, SPACE, probes, draws=100, candidates=16)
    assert own.price("cheap") == pytest.approx(0.004)
    assert own.hurdle("dear") == pytest.approx(0.04)
    assert "the objective charges" in " ".join(own.sentences())


def test_lengthening_is_what_a_plan_of_the_longer_run_says(found: RunValues) -> None:
    """The chosen run with its steps drawn out, as predict forecasts it."""
    plan = found.candidates.take(slice(found.now, found.now + 1)).plan(lab(), ["now"])
    run = plan.run("now")
    longer = replace(run, name="longer", schedule=run.schedule.stretched(run.schedule.steps + 400))
    posterior = lab_posterior()
    ends = {}
    for own in (run, longer):
        bands = posterior.predict(replace(plan, runs=(own,)), kind="expected", draws=600)
        last = bands["expected"].sel(step=own.schedule.steps).mean(("chain", "draw"))
        ends[own.name] = found.valuation.combination.weights @ last.to_numpy()[0]
    assert found.lengthening("cheap") == pytest.approx(ends["now"] - ends["longer"], abs=2e-4)


def test_changes_and_what_comes_after_are_of_the_chosen_configurations(found: RunValues) -> None:
    for name in found.order:
        apart = np.zeros(found.valuation.model.draws, dtype=bool)
        for quantity in found.space.ranges:
            own, after = found.space.quantities[quantity], found.after(name, quantity)
            assert after.shape == apart.shape
            assert own.scale == "linear"
            far = 0.2 * (own.highest - own.lowest)
            apart |= np.abs(after - found.candidates.column(quantity)[found.now]) >= far
        assert found.changes(name) == pytest.approx(apart.mean(), abs=0.02)


def test_runs_that_are_not_told_apart_are_named(found: RunValues) -> None:
    first, cost = found.order[0], found.affordable.cost
    gains = {run.name: found.values[run.name].gains / cost(run.name) for run in found.runs}
    for other in found.order[1:]:
        gap = gains[first] - gains[other]
        near = gap.mean() <= 2 * gap.std(ddof=1) / np.sqrt(gap.size)
        assert (other in found.as_good(first)) == near


@pytest.mark.parametrize(
    ("hurdle", "verdict"),
    [
        (0.0, "Yes: the same 400 steps"),
        (0.01, "These draws cannot tell, use more"),
        (0.02, "No: the same"),
        (1.0, "No run of that cost can be worth as much"),
    ],
)
def test_worth_is_set_against_what_the_cost_would_bring(
    found: RunValues, monkeypatch: pytest.MonkeyPatch, hurdle: float, verdict: str
) -> None:
    gains = 0.01 + 0.02 * np.random.default_rng(0).standard_normal(found.valuation.model.draws)
    cheap = replace(found.values["cheap"], gains=gains)
    values = dict.fromkeys(found.order, replace(cheap, gains=0.0 * gains)) | {"cheap": cheap}
    monkeypatch.setattr(RunValues, "lengthening", lambda *_: hurdle)
    own = replace(found, values=values, perfect=(0.05, 0.0))
    assert verdict in own.sentences()[2]
    assert "none of the 2 is worth as much for its cost" in own.sentences()[3]


def test_default_runs_start_from_every_base() -> None:
    found = Affordable.default(lab_posterior())
    assert len(found.plan.runs) == len(lab().bases) * len(REPLAYS) * 2
    assert {run.schedule.steps for run in found.plan.runs} == {1000}
    for run in found.plan.runs:
        base = lab().base(str(run.base))
        assert base.schedule is not None
        assert run.schedule.peak == base.schedule.peak
        assert found.cost(run.name) == 1000
        assert run.schedule.final == (0.0 if run.name.endswith("annealed") else base.schedule.peak)
    alone = prior_as_posterior(lab().subset(["pt_trunk", "r25_cos"]), "cpt")
    assert {run.replay for run in Affordable.default(alone, 50).plan.runs} == {0.25}
    # Such a law knows nothing of another replay ratio, and says so.
    other = lab().subset(["r25_cos", "r00_cos"]).without_losses()
    with pytest.raises(StudyError, match=r"run r00_cos: replay 0 is asked for"):
        alone.predict(other, draws=20)
    with pytest.raises(StudyError, match=r"replay: replay 0.5 .* Fit with --model cpt-replay"):
        decide(alone, "balanced", {"replay": [0.25, 0.5]}, draws=20)


@pytest.mark.parametrize(
    ("advice", "expected"),
    [
        ("a CPT run 4 times as long, at replay 0", (12_000, "stable_12k", 0.0, 0.0)),
        ("a CPT run that stays at its peak learning rate", (3000, "stable_12k", 0.25, 0.002)),
        ("a CPT run from a base annealed to learning rate 0", (3000, "annealed_0pct", 0.25, 0.0)),
        ("a PT run at a constant learning rate", (12_350, None, None, 0.002)),
    ],
)
def test_the_run_that_summary_advises_is_among_the_default_ones(
    advice: str, expected: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    posterior = lab_posterior()
    monkeypatch.setattr(module, "facts", lambda _: Facts({}, {}, advice))
    default = Affordable.default(posterior)
    found = default.with_most_telling(posterior).plan
    run = found.runs[-1]
    assert run.name == "most_telling"
    told = (run.schedule.steps, run.base, run.replay, pytest.approx(run.schedule.final, rel=1e-3))
    assert told == expected
    if run.base is not None:
        base = found.base(run.base).schedule
        assert base is not None
        rates, last = run.schedule.learning_rates(), base.final
        assert rates[0] == pytest.approx(last + (0.002 - last) / round(0.05 * run.schedule.steps))
    assert len(found.runs) == len(default.plan.runs) + 1
    monkeypatch.setattr(module, "facts", lambda _: Facts({}, {}, ""))
    assert default.with_most_telling(posterior) is default


def test_constraints_are_kept_by_what_is_chosen(probes: Path) -> None:
    objective = {
        "weights": {"target": 1.0},
        "constraints": [{"domain": "general", "rise": 0.2, "probability": 0.3}],
    }
    own = next_run(lab_posterior(), objective, SPACE, probes, draws=100, candidates=64)
    breaches = own.valuation.breaches(own.valuation.model.at(own.candidates))
    assert breaches.max() <= 0.3 + 0.02
    assert "what breaks a constraint now" in " ".join(own.sentences())
    objective["constraints"] = [{"domain": "general", "rise": -2.0, "probability": 0.3}]
    never = next_run(lab_posterior(), objective, SPACE, probes, draws=20, candidates=64)
    assert never.verdict()[0].startswith("No long run keeps the constraints")


@pytest.mark.parametrize(
    ("old", "new", "fragments"),
    [
        ("cost = 4000", "cost = -1", ("run dear, key cost", "the cost is -1", "above 0")),
        ("cost = 4000", 'cost = "much"', ("run dear, key cost", "'much'")),
        ("cost = 4000", "costs = 4000", ("key 'costs' is unknown",)),
        ("annealed_0pct", "annealed", ("annealed",)),
    ],
)
def test_bad_runs_are_refused(
    old: str, new: str, fragments: tuple[str, ...], tmp_path: Path
) -> None:
    path = tmp_path / "probes.toml"
    path.write_text(PROBES.replace(old, new), encoding="utf-8")
    with pytest.raises(StudyError) as caught:
        Affordable.read(path, lab())
    for fragment in fragments:
        assert fragment in str(caught.value)
