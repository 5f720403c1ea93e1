"""The prior given the bases' losses, against plain importance sampling with a density written apart."""

import numpy as np
import pandas as pd
import pytest
from dense_residuals import curve_covariance

from bayes_cpt.arrays import Floats
from bayes_cpt.forecast.derived import last_points, start_loss
from bayes_cpt.identify.prior_given_bases import above_zero, base_curves, draw_given_bases
from bayes_cpt.identify.prior_predictive import expected_ends, frame_of
from bayes_cpt.model.priors.draws import draw_priors
from bayes_cpt.model.priors.tables import Correlation
from bayes_cpt.model.simulate import expected_loss
from bayes_cpt.model.spec import ModelSpec, read_spec
from bayes_cpt.study.runs import Base, Run
from bayes_cpt.study.schedules import constant, cosine, linear
from bayes_cpt.study.study import Study

SPEC = read_spec("cpt-replay")
PEAK = 3e-4
TRUNK = linear(2000, 0.0, PEAK) + constant(98_000, PEAK)
WHOLE = TRUNK + linear(100_000, PEAK, 3e-5)


def plan(general: float, target: float, *, bases: int = 1) -> Study:
    """Return runs from the end of PT, and from before its decay if there are two bases."""
    every = (
        Base("end", WHOLE.steps, WHOLE, run="pt"),
        Base("middle", TRUNK.steps, TRUNK, run="pt"),
    )[:bases]
    runs = tuple(
        Run(f"from {base.name}", "cpt", cosine(2000, 6e-5), base=base.name, replay=0.25)
        for base in every
    )
    # Annealing took 0.2 off the loss.
    losses = pd.DataFrame(
        [
            (run.name, 0, domain, loss + 0.2 * number)
            for number, run in enumerate(runs)
            for domain, loss in (("web", general), ("code", target))
        ],
        columns=["run", "step", "domain", "loss"],
    )
    pretraining = Run("pt", "pt", WHOLE)
    return Study("plan", "web", "code", every, (pretraining, *runs), losses, is_plan=True)


def narrow() -> ModelSpec:
    """Return a model whose level is known, and losses are not, well enough for importance sampling."""
    level, loose = SPEC.priors["reference_loss"], {}
    for name in ("fluctuation_pt", "offset_pt", "misfit_pt"):
        prior = SPEC.priors[name]
        wide = prior.of(None).moved(np.log(0.1), 0.3)
        loose[name] = prior.model_copy(update={"every": wide})
    every = level.of(None).moved(np.log(3.0), 0.07)
    return SPEC.model_copy(
        update={
            "priors": SPEC.priors
            | loose
            | {"reference_loss": level.model_copy(update={"every": every})}
        }
    )


def tied(spec: ModelSpec) -> ModelSpec:
    """Return a model whose level, slope and memory go together."""
    pairs = {("reference_loss", "reference_slope"): 0.7, ("annealing_gain", "memory"): -0.6}
    correlations = tuple(
        Correlation(between=between, value=value, reason="For tests.")
        for between, value in pairs.items()
    )
    return spec.model_copy(update={"correlations": correlations})


@pytest.mark.parametrize(("bases", "spec"), [(1, narrow()), (2, narrow()), (2, tied(narrow()))])
def test_draws_are_those_of_weighted_priors(bases: int, spec: ModelSpec) -> None:
    study = plan(3.1, 3.2, bases=bases)
    frame = frame_of(spec, study)
    curves = base_curves(frame, study)
    assert curves is not None
    brute = draw_priors(frame, 40_000, seed=1)
    with np.errstate(all="ignore"):
        missed = curves.points.loss - expected_loss(frame, brute, curves)
    weights = np.zeros(len(missed))
    rate = np.array([TRUNK.final, WHOLE.final])[2 - bases :] / frame.reference.learning_rate
    for curve in range(len(curves.curves)):
        rows = np.flatnonzero(curves.points.curve_index == curve)
        domain = frame.domains.index(curves.curves[curve].domain)
        weights += _log_density(missed[:, rows], dict(brute.items()), domain, rate, frame)
    weights = np.exp(weights - np.nanmax(weights))
    weights = np.where(np.isfinite(weights), weights, 0.0) / np.nansum(weights)
    independent = 1.0 / (weights**2).sum()
    assert independent > 100
    found = draw_given_bases(frame, study, 3000, seed=2)
    for name in ("reference_loss", "reference_slope", "annealing_gain", "exponent", "memory"):
        wanted, given = (np.log(own[name]).reshape(len(own[name]), -1) for own in (brute, found))
        for column in range(wanted.shape[1]):
            mean = weights @ wanted[:, column]
            spread = np.sqrt(weights @ (wanted[:, column] - mean) ** 2)
            error = spread * np.sqrt(1.0 / independent + 10.0 / 3000)
            assert given[:, column].mean() == pytest.approx(mean, abs=4.0 * error), name
            assert given[:, column].std() == pytest.approx(spread, rel=0.3), name


def _log_density(
    missed: Floats, parameters: dict[str, Floats], domain: int, rate: Floats, frame: object
) -> Floats:
    """Return the log density of the bases of one PT run, from the dense covariance of a unit curve."""
    steps = [TRUNK.steps, WHOLE.steps][2 - missed.shape[1] :]
    reference = frame.reference.steps  # type: ignore[attr-defined]
    own = {
        name: parameters[name][:, domain]
        for name in ("fluctuation_floor", "fluctuation_pt", "misfit_pt", "offset_pt")
    }
    heat = own["fluctuation_floor"][:, None] + np.outer(1.0 - own["fluctuation_floor"], rate)
    fluctuation = own["fluctuation_pt"][:, None] * heat
    shared = {"anchored": False, "onset": 0.002 * reference, "carried": 0.8, "per_fold": 8}
    nothing, one = np.zeros(len(steps)), np.ones(len(steps))
    # The bases are 100,000 steps apart: the fluctuation has long forgotten.
    sizes = {"fluctuation": nothing, "memory": 1.0, "level": nothing, **shared}
    misfit = curve_covariance(steps, misfit=one, **sizes)
    covariance = (
        own["misfit_pt"][:, None, None] ** 2 * misfit
        + own["offset_pt"][:, None, None] ** 2
        + fluctuation[:, :, None] ** 2 * np.eye(len(steps))
    )
    solved = np.linalg.solve(covariance, missed[..., None])[..., 0]
    return np.asarray(-0.5 * (missed * solved).sum(axis=1) - 0.5 * np.linalg.slogdet(covariance)[1])


def test_a_target_that_is_easy_already_is_not_expected_to_rise() -> None:
    """As of a 7B model: the level is that of the base, not that of all language models."""
    study = plan(1.9, 1.3)
    frame = frame_of(SPEC, study)
    ends = expected_ends(frame, study, draws=1000).set_index("domain")
    assert ends.loc["code", "upper"] < 0.0
    assert -1.0 < ends.loc["code", "median"] < -0.2
    assert ends.loc["code", "lower"] > -1.3
    curves = last_points(frame, study, study.continual_runs)
    loose = draw_priors(frame, 1000, seed=0)
    with np.errstate(all="ignore"):
        moved = expected_loss(frame, loose, curves) - start_loss(frame, loose, curves)
    # What the priors alone would say.
    assert np.quantile(moved[:, 1], 0.95) > 1.0


def test_without_measured_bases_draws_are_the_priors_own() -> None:
    study = plan(1.9, 1.3)
    bare = Study(
        "plan", "web", "code", study.bases, study.runs, study.losses.iloc[:0], is_plan=True
    )
    frame = frame_of(SPEC, bare)
    found, wanted = draw_given_bases(frame, bare, 50, 3), draw_priors(frame, 50, 3)
    for name, values in wanted.items():
        np.testing.assert_array_equal(found[name], values)


def test_draws_with_a_loss_that_nobody_can_measure_are_left_out() -> None:
    losses = np.array([[1.0, 2.0], [0.0, 2.0], [1.0, np.nan], [3.0, np.inf], [0.1, 0.2]])
    assert above_zero(losses).tolist() == [True, False, False, False, True]
