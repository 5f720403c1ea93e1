"""Laws compared on studies whose truth is known; fits are stood in for, so that nothing is sampled."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import arviz as az
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import special, stats
from size_family import losses_of
from stand_in import Fits, knowing, medians, stand_in
from synthetic import lab, lab_posterior, prior_as_posterior

from bayes_cpt import Posterior, Study, compare, load, read_spec
from bayes_cpt.errors import ProblemError
from bayes_cpt.inference.metric import SamplingError
from bayes_cpt.model.setup import build_setup
from bayes_cpt.model.simulate import simulate
from bayes_cpt.model.spec import ModelSpec
from bayes_cpt.validate.comparison import Comparison, CurveLoo
from bayes_cpt.validate.law_scores import LOG_SCORE, STACK, mixture_draws, stacking_weights

OURS, PRINTED = "cpt-replay", "cpt-replay-printed"
RUNS = ["r00_cos", "r25_cos", "r50_cos", "r75_wsd"]
MODELS = [OURS, PRINTED]
CURVES = ["a, general", "a, target", "b, general", "b, target", "c, general"]
SHAPES = st.tuples(st.integers(2, 12), st.integers(2, 5))
SCORES = SHAPES.flatmap(
    lambda shape: arrays.arrays(np.float64, shape, elements=st.floats(-200.0, 200.0, width=32))
)


@cache
def truth(model: str) -> dict[str, np.ndarray]:
    return medians(model, lab())


def from_law(model: str, runs: list[str], study: Study) -> Study:
    """Return a study in which the losses of some runs are drawn from a law."""
    setup = build_setup(read_spec(model), lab())
    curves, losses = setup.curves, study.losses.reset_index(drop=True)
    drawn = simulate(setup.frame, truth(model), curves, None, np.random.default_rng(7)).loss[0]
    table = losses_of(curves, drawn)
    table = table[table["run"].isin(runs)]
    whole = losses.merge(table, on=["run", "step", "domain"], how="left", suffixes=("", "_drawn"))
    return replace(study, losses=losses.assign(loss=whole["loss_drawn"].fillna(whole["loss"])))


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> Fits:
    """Fit by knowing the truth of each law."""

    def make(study: Study, spec: ModelSpec) -> Posterior:
        known = spec.name in MODELS
        return knowing(study, spec, truth) if known else prior_as_posterior(study, spec)

    return stand_in(monkeypatch, make)


@cache
def studies() -> dict[str, Study]:
    ours = from_law(OURS, RUNS, lab())
    return {OURS: ours, "both": from_law(PRINTED, RUNS[:2], ours)}


def compared(study: Study, **options: Any) -> Comparison:
    chosen: dict[str, Any] = {"runs": RUNS, "tails": (), "jobs": 1} | options
    return compare(study, MODELS, **chosen)


@pytest.mark.usefixtures("fits")
def test_the_law_that_the_losses_come_from_has_all_the_weight() -> None:
    result = compared(studies()[OURS], tails=(0.5,))
    assert result.scores is not None
    assert result.scores.best == OURS
    assert result.weights == {OURS: 1.0, PRINTED: 0.0}
    table = result.table().set_index(["seen", "method"])
    assert (table.loc[(slice(None), OURS), "log_score_difference"] == 0).all()
    assert (table.loc[(slice(None), PRINTED), "log_score_difference"] < -100).all()
    assert (table.loc[(slice(None), PRINTED), "crps_difference"] > 0).all()
    # A stack of one law scores as the law does, and its bands hold what they promise.
    for column in ("log_score", "crps", "coverage_90"):
        stacked = table.loc[(slice(None), STACK), column].to_numpy()
        np.testing.assert_allclose(stacked, table.loc[(slice(None), OURS), column], atol=1e-6)
    assert table.loc[(0.0, OURS), "coverage_90"] == pytest.approx(0.9, abs=0.12)
    assert result.stack is not None
    assert result.stack.weights == (1.0,)
    assert result.verdict()[0] == f"Use {OURS}."
    assert any(f"The stack is {OURS} alone" in paragraph for paragraph in result.sentences())


@pytest.mark.usefixtures("fits")
def test_where_each_law_is_right_about_some_runs_the_stack_is_better_than_either() -> None:
    result = compared(studies()["both"])
    assert result.scores is not None
    assert result.weights is not None
    # Two runs come from each law, which excludes the other's: each explains half of them.
    assert result.weights[OURS] == pytest.approx(0.5, abs=0.01)
    for law in MODELS:
        values = result.scores.of_runs(LOG_SCORE)
        assert values[STACK].mean() > values[law].mean()
    stack = result.table().set_index("method").loc[STACK]
    assert stack["log_score_difference"] >= -stack["log_score_error"]
    assert stack["crps_difference"] <= stack["crps_error"]
    assert "Use the stack: 50 % cpt-replay, 50 % cpt-replay-printed." in result.verdict()[0]
    # The weights that a run is scored with are those of the three others.
    weights = result.scores.fold_weights
    np.testing.assert_allclose(weights[PRINTED], [1 / 3, 1 / 3, 2 / 3, 2 / 3], atol=0.01)


def test_what_is_done_is_not_done_again(fits: Fits, tmp_path: Path) -> None:
    first = compared(lab(), runs=RUNS[:3], folder=tmp_path)
    # The printed law takes in more of a PT run.
    apart = f"{PRINTED} leaves out other points of the runs than {OURS}"
    assert first.curve_loo == f"{apart}, so that densities do not compare"
    assert len(fits.asked) == 2 + 2 * 3
    again = compared(lab(), runs=RUNS[:3], folder=tmp_path)
    assert len(fits.asked) == 2 + 2 * 3
    pd.testing.assert_frame_equal(first.table(), again.table())
    assert load(tmp_path / f"{PRINTED}.nc").study.digest() == lab().digest()
    with pytest.raises(ProblemError, match="results of another run"):
        compared(lab(), runs=RUNS[:3], folder=tmp_path, seed=9)


def test_a_quick_comparison_fits_each_law_once(fits: Fits) -> None:
    # Another prior, and so the same points of the runs.
    ours = read_spec(OURS)
    prior = ours.priors["exponent"].model_copy(update={"reason": "Our own."})
    other = ours.model_copy(update={"name": "other", "priors": ours.priors | {"exponent": prior}})
    result = compare(lab(), [ours, other], jobs=1, quick=True)
    assert [own["spec"].name for own in fits.asked] == [OURS, "other"]
    assert result.scores is None
    # These fits hold no log likelihoods: there is no answer, and it is said.
    assert result.stack is None
    assert result.problems == (
        f"no first answer without refits: the fit of {OURS} holds no log likelihoods",
    )
    with pytest.raises(ValueError, match="no run was left out"):
        result.table()


def test_fits_that_fall_short_are_named_and_runs_without_a_forecast_left_out_for_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fit(study: Study, spec: ModelSpec, seed: int, **_: Any) -> Posterior:
        missing = {"r00_cos", "r25_cos", "r50_cos"} - {run.name for run in study.runs}
        if spec.name == PRINTED and missing & {"r25_cos", "r50_cos"}:
            raise SamplingError("no draw is finite")
        posterior = prior_as_posterior(study, spec, draws=10, spread=0.05)
        short = ["R-hat is 1.3"] if spec.name == PRINTED and missing else []
        posterior.tree.attrs["problems"] = json.dumps(short)
        return posterior

    monkeypatch.setattr("bayes_cpt.inference.fitting.fit", fit)
    result = compared(lab())
    assert result.problems == (
        f"{PRINTED}, without r00_cos: R-hat is 1.3",
        *(f"{PRINTED}, without {run}: no draw is finite" for run in ("r25_cos", "r50_cos")),
    )
    assert result.scores is not None
    assert list(result.scores.log_scores["run"]) == ["r00_cos", "r75_wsd"]
    with pytest.raises(ProblemError, match="only 1 of its refits gave a forecast"):
        compared(lab(), runs=RUNS[:3])


@cache
def fit_of(shift: float) -> Posterior:
    """Return a fit that holds the log likelihoods of a normal mean, one curve a loss."""
    losses = np.random.default_rng(1).normal(size=len(CURVES))
    mean, sd = losses.mean() + shift, 1.0 / np.sqrt(losses.size)
    draws = stats.norm(mean, sd).rvs((4, 500), random_state=2)
    likelihoods = stats.norm(draws[..., None], 1.0).logpdf(losses)
    run, domain = zip(*(curve.split(", ") for curve in CURVES), strict=True)
    where = {"run": ("point", list(run)), "domain": ("point", list(domain))}
    tree = xr.DataTree.from_dict(
        {
            "posterior": xr.Dataset({"mean": (("chain", "draw"), draws)}),
            "log_likelihood": xr.Dataset(
                {"loss": (("chain", "draw", "curve"), likelihoods)}, coords={"curve": CURVES}
            ),
            "observed_data": xr.Dataset(
                {"loss": ("point", losses)},
                coords=where | {"step": ("point", [3] * len(CURVES))},
            ),
        }
    )
    return Posterior(tree, lab_posterior().study, lab_posterior().frame)


def answer(**fits: Posterior) -> CurveLoo:
    found = CurveLoo.of(fits)
    assert isinstance(found, CurveLoo)
    return found


def test_densities_are_those_of_leaving_each_curve_out() -> None:
    found = answer(right=fit_of(0.0))
    losses = np.random.default_rng(1).normal(size=len(CURVES))
    for place, loss in enumerate(losses):
        others = np.delete(losses, place)
        exact = stats.norm(others.mean(), np.sqrt(1.0 + 1.0 / others.size)).logpdf(loss)
        assert found.log_densities.iloc[place, 0] == pytest.approx(exact, abs=0.05)
    assert found.holds


def test_weights_and_differences_are_those_of_arviz() -> None:
    found = answer(right=fit_of(0.0), off=fit_of(1.5))
    assert found.best == "right"
    assert found.weights["right"] > 0.9
    loos = {
        name: az.loo(fit_of(shift).tree, pointwise=True, var_name="loss", reff=1.0)
        for name, shift in (("right", 0.0), ("off", 1.5))
    }
    theirs = az.compare(loos, method="stacking")
    assert found.weights["off"] == pytest.approx(theirs.loc["off", "weight"], abs=0.02)
    # A run is one observation: its curves are added up, and there are three runs.
    gap = found.differences().loc["off"]
    apart = found.log_densities["off"] - found.log_densities["right"]
    sums = apart.groupby(lambda curve: curve.split(", ")[0]).sum()
    assert len(sums) == 3
    assert gap["mean"] == pytest.approx(sums.mean())
    assert gap["error"] == pytest.approx(stats.sem(sums))
    assert 3 * gap["mean"] == pytest.approx(float(loos["off"].elpd - loos["right"].elpd), abs=1e-6)


def test_fits_without_log_likelihoods_do_not_compare() -> None:
    without = CurveLoo.of({"one": lab_posterior(), "other": fit_of(0.0)})
    assert without == "the fit of one holds no log likelihoods"


def mean_score(scores: np.ndarray, weights: np.ndarray) -> float:
    with np.errstate(divide="ignore"):
        return float(special.logsumexp(scores + np.log(weights), axis=1).mean())


@settings(max_examples=60, deadline=None)
@given(SCORES)
def test_weights_lie_on_the_simplex_and_nothing_scores_better(scores: np.ndarray) -> None:
    weights = stacking_weights(pd.DataFrame(scores)).to_numpy()
    assert weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert weights.min() >= 0.0
    # The problem is concave: where no vertex leads up, nothing does.
    best = mean_score(scores, weights)
    for vertex in np.eye(scores.shape[1]):
        nearby = 0.99 * weights + 0.01 * vertex
        assert mean_score(scores, nearby) <= best + 1e-6


def test_draws_of_a_mixture_have_its_quantiles() -> None:
    middles = (np.arange(100) + 0.5) / 100
    laws = [stats.norm(0.0, 1.0), stats.norm(4.0, 0.5)]
    quantiles = np.stack([np.stack([law.ppf(middles), 2.0 + law.ppf(middles)], 1) for law in laws])
    draws = mixture_draws(quantiles, np.array([0.7, 0.3]), 1000)
    assert draws.shape == (1000, 2)
    np.testing.assert_allclose(draws[:, 1], draws[:, 0] + 2.0)
    for value in (-1.0, 0.5, 3.5, 4.5):
        wanted = 0.7 * laws[0].cdf(value) + 0.3 * laws[1].cdf(value)
        assert np.mean(draws[:, 0] <= value) == pytest.approx(wanted, abs=3e-3)


def test_a_run_that_every_law_holds_for_impossible_gives_no_weights() -> None:
    with pytest.raises(ValueError, match="no finite density under any model"):
        stacking_weights(pd.DataFrame(np.full((2, 2), -np.inf)))
