"""Options of the law: without them it is the printed one; and each is found again from its own curves."""

import numpy as np
import pandas as pd
import pytest
from area_values import plain_level
from printed import COEFFICIENTS, PEAK, pretraining, stepwise_losses
from scipy.optimize import least_squares

from bayes_cpt.arrays import Floats
from bayes_cpt.laws import Annealing, Law, PeakLevel, Power, Reference, Shift
from bayes_cpt.laws.areas import AreaForm
from bayes_cpt.laws.series import MomentumRange, PowerRange
from bayes_cpt.model.points import Curves, build_curves
from bayes_cpt.study.runs import Base, Run
from bayes_cpt.study.schedules import cosine, linear, warmup_stable_decay
from bayes_cpt.study.study import Study

DOMAINS = ("general", "target")
NAMES = ("L0", "A", "alpha", "C1", "C2", "B", "E", "beta")
NO_LOSSES = pd.DataFrame(columns=["run", "step", "domain", "loss"])
REFERENCE = Reference(PEAK, 8.0, 2.0, 20_000.0)


def plan_of(runs: tuple[Run, ...], bases: tuple[Base, ...] = ()) -> Study:
    return Study("plan", *DOMAINS, bases, runs, NO_LOSSES, is_plan=True)


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("shift", COEFFICIENTS)
def test_with_powers_of_1_and_no_clock_it_is_the_printed_law(shift: str, free: bool) -> None:
    """Both where the powers are not there and where they are free and 1; against single steps."""
    base = pretraining(loss_potential=0.3)
    run = linear(500, 0.3 * PEAK, PEAK) + cosine(5000, PEAK)
    plan = plan_of(
        (Run("run", "cpt", run, base="base", replay=0.0),), (Base("base", base.steps, base),)
    )
    form = AreaForm(
        MomentumRange(0.99, 0.9999), PowerRange(0.1, 1.6) if free else PowerRange(), PEAK
    )
    steps = [1, 30, 500, 700, 2000, 5499, 5500]
    points = build_curves(plan, DOMAINS, lambda *_: steps, REFERENCE, form).points
    law = Law(
        (
            Power(forward_power=free),
            Annealing(replay=False, level_power=free),
            Shift((1.0, -1.0), ("none", "none")),
        ),
        REFERENCE,
    )
    printed = COEFFICIENTS[shift]
    columns = np.array(printed)[points.domain_index].T
    coefficients = dict(zip(NAMES, columns, strict=True)) | {"lambda": np.float64(0.999)}
    if free:
        coefficients |= {"rho": np.float64(1.0), "zeta": np.float64(1.0)}
    wanted = np.concatenate([stepwise_losses(own, base, run)[steps] for own in printed])
    np.testing.assert_allclose(law.loss(points, coefficients, np), wanted, rtol=1e-9)


# Pre-training runs at three peaks, from which options are found again.
RUNS = {
    "high": warmup_stable_decay(3000, 2e-3, decay_steps=800, warmup_steps=200),
    "middle": cosine(3000, 1e-3, 1e-4, warmup_steps=200),
    "low": warmup_stable_decay(2000, 5e-4, decay_steps=500, warmup_steps=100),
}
STEPS = tuple(range(250, 2001, 125))
RATE = 1e-3
AT = Reference(RATE, 2.0, 1.0, 2000.0)
# The truths that are to be found again.
TRUTH = {
    "reference_loss": 3.1,
    "reference_slope": 0.16,
    "exponent": 0.45,
    "annealing_gain": 0.14,
    "memory": 90.0,
    "forward_power": 0.6,
    "level_power": 0.7,
    "peak_power": 0.6,
    "peak_slope": 0.03,
    "peak_curvature": 0.02,
}
OPTIONAL = ("forward_power", "level_power", "peak_power", "peak_slope", "peak_curvature")
START = {
    "reference_loss": 3.0,
    "reference_slope": 0.2,
    "exponent": 0.6,
    "annealing_gain": 0.1,
    "memory": 150.0,
    "forward_power": 0.9,
    "level_power": 1.0,
    "peak_power": 0.3,
    "peak_slope": 0.05,
    "peak_curvature": 0.01,
}


def plain_curves(free: tuple[str, ...], clock: float, counted: bool) -> Floats:
    """Return losses of the runs in plain loops, in the order of their points."""
    power, zeta, xi, slope_at_peak, curvature = (
        TRUTH[name] if name in free else without
        for name, without in zip(OPTIONAL, (1.0, 1.0, 0.0, 0.0, 0.0), strict=True)
    )
    momentum, alpha = 1.0 - 1.0 / TRUTH["memory"], TRUTH["exponent"]
    losses = []
    for schedule in RUNS.values():
        rates = schedule.learning_rates()
        warmup = 0 if counted else schedule.warmup_steps
        first, start = (0.0, RATE) if counted else (schedule.peak, schedule.peak)
        peak = np.log(schedule.peak / RATE)
        left = slope_at_peak * peak + curvature * peak**2
        for step in STEPS:
            area = sum((rates[:step] / RATE) ** power) * RATE / AT.forward_pt
            level = plain_level(rates[warmup:step], momentum, first, clock, RATE)
            level /= (schedule.peak / RATE) ** xi
            fall = (start / RATE) ** zeta - (level / RATE) ** zeta
            slope = TRUTH["reference_slope"] / alpha * (area**-alpha - 1.0)
            losses.append(TRUTH["reference_loss"] + slope + left - TRUTH["annealing_gain"] * fall)
    return np.array(losses)


def fitted(curves: Curves, law: Law, losses: Floats, names: list[str]) -> dict[str, float]:
    """Return least squares over the logs of what a law samples."""
    points = curves.points

    def residuals(logs: Floats) -> Floats:
        values = dict(zip(names, np.exp(logs), strict=True))
        coefficients = law.coefficients(values, np)
        return np.asarray(law.loss(points, coefficients, np) - losses) * 1e3

    start = np.log([START[name] for name in names])
    low, high = (start + 0.0 * start - 3.0), (start + 3.0)
    # Where areas are tabulated.
    for name, ends in {"memory": (11.0, 900.0), "forward_power": (0.11, 1.59)}.items():
        if name in names:
            low[names.index(name)], high[names.index(name)] = np.log(ends)
    found = least_squares(residuals, start, bounds=(low, high), x_scale=0.1, xtol=1e-13, ftol=1e-13)
    return dict(zip(names, np.exp(found.x), strict=True))


@pytest.mark.parametrize(
    ("free", "clock", "counted"),
    [
        (("forward_power",), 0.0, False),
        (("level_power",), 0.0, False),
        ((), 0.7, True),
        (("forward_power", "level_power"), 0.7, True),
        (("peak_slope", "peak_curvature"), 0.7, True),
        (OPTIONAL, 0.7, True),
    ],
)
def test_each_option_is_found_again_from_its_own_curves(
    free: tuple[str, ...], clock: float, counted: bool
) -> None:
    """Noise-free curves at three peaks, by single steps; the law's series in least squares."""
    losses = plain_curves(free, clock, counted)
    rho, zeta = "forward_power" in free, "level_power" in free
    form = AreaForm(
        MomentumRange(0.9, 0.999),
        PowerRange(0.1, 1.6) if rho else PowerRange(),
        RATE,
        clock,
        counted,
    )
    runs = tuple(Run(name, "pt", schedule) for name, schedule in RUNS.items())
    curves = build_curves(plan_of(runs), DOMAINS[:1], lambda *_: STEPS, AT, form)
    annealing = Annealing(
        continual=False, replay=False, level_power=zeta, peak_power="peak_power" in free
    )
    peak = (PeakLevel(),) if "peak_slope" in free else ()
    terms = (Power(forward_power=rho), annealing, *peak)
    names = [name for name in TRUTH if name in free or name not in OPTIONAL]
    found = fitted(curves, Law(terms, AT), losses, names)
    assert found == pytest.approx({name: TRUTH[name] for name in names}, rel=1e-4)
