"""Checks of a law against its runs: pivots with known distributions, alarms where a law does not fit."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy import stats
from size_family import BLANK, losses_of
from testbench.calibration import design_study, simulate_setup

from bayes_cpt import Run, Study, fit, read_spec
from bayes_cpt.arrays import Floats
from bayes_cpt.inference import law_checks
from bayes_cpt.inference.law_checks import DRIFT, FACTOR, RUN, SIZE, WILD, LawChecks, check_law
from bayes_cpt.model.joint_priors import draw_priors
from bayes_cpt.model.setup import Setup, build_setup
from bayes_cpt.study.ranges import PEAK_RATE
from bayes_cpt.study.schedules import constant, cosine, linear

SPEC = read_spec("pretrain")
PEAKS = {"low": 5e-4, "middle": 1e-3, "high": 2e-3}
STEPS = 6000
# Truths of the simulated studies: enough for a Kolmogorov-Smirnov test to see a scale that is 15 % off.
TRUTHS = 300
# Studies that are fitted in the slow test.
FITTED = 20


@cache
def several_peaks() -> Study:
    """Return a design of PT runs at three peak learning rates, two schedules each."""
    runs = []
    for name, peak in PEAKS.items():
        warm = linear(200, 0.0, peak)
        runs.append(Run(f"{name} cosine", "pt", warm + cosine(STEPS - 200, peak)))
        runs.append(Run(f"{name} constant", "pt", warm + constant(STEPS - 200, peak)))
    plan = Study("peaks", "general", None, (), tuple(runs), BLANK, is_plan=True)
    return design_study(plan, SPEC)


@cache
def blank() -> Setup:
    return build_setup(SPEC, several_peaks())


def simulated(truth: dict[str, Floats], seed: int) -> Setup:
    """Return the design with losses that the model draws at one truth."""
    return simulate_setup(blank(), several_peaks(), truth, np.random.default_rng(seed))


def measured(setup: Setup) -> Study:
    """Return the design as a study with the losses of a setup."""
    return replace(several_peaks(), losses=losses_of(setup.curves, setup.curves.points.loss))


def of_another_law(setup: Setup, per_fold: float) -> Setup:
    """Return losses that also rise with the logarithm of the peak, which the law knows nothing of."""
    curves = setup.curves
    runs = [several_peaks().run(curve.run) for curve in curves.curves]
    level = per_fold * np.log([run.schedule.peak / PEAKS["middle"] for run in runs])
    loss = curves.points.loss + level[curves.points.curve_index]
    return replace(setup, curves=replace(curves, points=replace(curves.points, loss=loss)))


@cache
def one_truth() -> dict[str, Floats]:
    """Return the parameters at which studies are simulated: every prior's median."""
    drawn = draw_priors(blank().frame, 999, seed=1)
    return {name: np.median(values, axis=0)[None] for name, values in drawn.items()}


@cache
def rising() -> Setup:
    """Return losses at that truth that rise with the peak."""
    return of_another_law(simulated(one_truth(), seed=3), per_fold=0.1)


def truths_from_the_prior(count: int, seed: int) -> list[dict[str, Floats]]:
    drawn = draw_priors(blank().frame, count, seed)
    return [{name: value[[i]] for name, value in drawn.items()} for i in range(count)]


@cache
def checks_of_truths() -> list[LawChecks]:
    """Return the checks of studies at truths from the prior, asked of the truths themselves."""
    found = []
    for i, truth in enumerate(truths_from_the_prior(TRUTHS, seed=5)):
        setup = simulated(truth, seed=i)
        found.append(check_law(setup.frame, several_peaks(), setup.curves, truth))
    return found


@pytest.mark.parametrize("kind", [RUN, DRIFT, FACTOR, SIZE])
def test_what_is_asked_of_one_draw_is_uniform_if_the_model_is_right(kind: str) -> None:
    # Twice the probability in the one draw there is, cut off at 1.
    pools: dict[str, list[float]] = {}
    for checks in checks_of_truths():
        for check in checks.checks:
            if check.kind == kind:
                pools.setdefault(check.subject, []).append(check.probability)
    assert pools
    for values in pools.values():
        below = np.array(values)[np.array(values) < 1.0] / 2.0
        assert stats.binomtest(below.size, len(values), 0.5).pvalue > 1e-4
        assert stats.kstest(2.0 * below, "uniform").pvalue > 1e-4


def test_alarms_at_the_truth_are_rarer_than_stated() -> None:
    alarms = sum(bool(checks.alarms) for checks in checks_of_truths())
    assert stats.binomtest(alarms, TRUTHS, law_checks.FALSE_ALARMS, "greater").pvalue > 0.01


def test_levels_that_go_with_the_peak_learning_rate_alarm() -> None:
    alarms = check_law(rising().frame, several_peaks(), rising().curves, one_truth()).alarms
    factor = next(check for check in alarms if check.kind == FACTOR)
    assert factor.subject == PEAK_RATE
    np.testing.assert_allclose(factor.value, 0.1 * np.log(4.0), rtol=0.3)
    named = {check.subject for check in alarms if check.kind == RUN}
    assert {run.split()[0] for run in named} == {"low", "high"}


def test_an_offset_far_above_its_prior_alarms_and_explains_the_runs_away() -> None:
    wide = one_truth() | {"offset_pt": np.full_like(one_truth()["offset_pt"], 0.156)}
    (alarm,) = check_law(rising().frame, several_peaks(), rising().curves, wide).alarms
    assert alarm.subject == "offset_pt"
    # The prior is LogNormal(median 0.005, 1), in pretrain and in cpt-replay.
    prior = SPEC.priors["offset_pt"].of("general")
    tail = stats.lognorm(prior.spread, scale=np.exp(prior.center)).sf(0.156)
    np.testing.assert_allclose([alarm.value, alarm.usual], [0.156, np.exp(prior.center)])
    np.testing.assert_allclose(alarm.probability, 2.0 * tail)


def test_a_fit_alarms_where_a_run_has_another_tokenizer() -> None:
    study = measured(simulated(one_truth(), seed=3))
    losses = study.losses.copy()
    losses.loc[losses["run"] == "high cosine", "loss"] *= 0.85
    fitted = fit(replace(study, losses=losses), SPEC, draws=300, attempts=1)
    assert "offset_pt" in {check.subject for check in fitted.law_checks.alarms}


def test_wild_evaluations_are_named_and_no_others() -> None:
    setup = simulated(one_truth(), seed=3)
    points, run = setup.curves.points, setup.curves.curves[1].run
    points.loss[np.flatnonzero(points.curve_index == 1)[4:7]] += [0.5, 0.4, 0.3]
    found = check_law(setup.frame, several_peaks(), setup.curves, one_truth()).alarms
    named = {own.subject: own.steps for own in found if own.kind == WILD}
    assert named == {run: "3200, 3600, 4000"}


def test_half_of_the_draws_decide() -> None:
    draws = {name: np.repeat(value, 100, axis=0) for name, value in one_truth().items()}
    for share, alarming in ((40, True), (60, False)):
        mixed = {name: value.copy() for name, value in draws.items()}
        # Draws at which nothing stands out.
        mixed["offset_pt"][:share] = 10.0
        found = check_law(rising().frame, several_peaks(), rising().curves, mixed)
        assert any(check.kind == FACTOR for check in found.alarms) == alarming


@pytest.mark.slow
def test_fits_of_simulated_studies_seldom_alarm_and_those_of_another_law_do() -> None:
    truths = truths_from_the_prior(2 * FITTED, seed=8)
    # The prior of a level reaches below 0, where no study is one.
    studies = [simulated(truth, seed=i) for i, truth in enumerate(truths)]
    described = [own for own in studies if own.curves.points.loss.min() > 0][:FITTED]
    others = [of_another_law(simulated(one_truth(), i), 0.15) for i in range(FITTED // 4)]
    alarms, power = (
        [not fit(measured(own), SPEC, seed=i, draws=300, attempts=1).law_fits for i, own in part]
        for part in (enumerate(described), enumerate(others))
    )
    assert stats.binomtest(sum(alarms), FITTED, law_checks.FALSE_ALARMS, "greater").pvalue > 0.01
    assert all(power)
