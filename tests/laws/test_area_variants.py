"""Annealing areas of Eq. 9, Eq. 10 and the multi-power law: by plain sums, and where they are simpler."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from peaked_runs import AT, RATE, RUNS, STEPS
from scipy.optimize import least_squares

from bayes_cpt.arrays import Floats
from bayes_cpt.laws import Annealing, Law, Power
from bayes_cpt.laws.areas import AreaForm
from bayes_cpt.laws.multi_power import SAMPLED
from bayes_cpt.laws.numerics.ranges import MomentumRange, PowerRange
from bayes_cpt.model.points import Curves, build_curves
from bayes_cpt.study.runs import Run
from bayes_cpt.study.schedules import Schedule, constant, linear
from bayes_cpt.study.study import Study

SHARED = {
    "reference_loss": 3.1,
    "reference_slope": 0.16,
    "exponent": 0.45,
    "annealing_gain": 0.14,
}
MOMENTUM = SHARED | {"memory": 90.0}
NO_LOSSES = pd.DataFrame(columns=["run", "step", "domain", "loss"])


def curves_of(form: AreaForm, schedules: dict[str, Schedule] = RUNS) -> Curves:
    runs = tuple(Run(name, "pt", schedule) for name, schedule in schedules.items())
    plan = Study("plan", "general", None, (), runs, NO_LOSSES, is_plan=True)
    return build_curves(plan, ("general",), lambda *_: STEPS, AT, form)


def weighted_form(low: float, high: float) -> AreaForm:
    return AreaForm(
        MomentumRange(0.9, 0.999), reference_rate=RATE, weights=PowerRange(1.0 + low, 1.0 + high)
    )


def losses(
    area_of: Callable[..., float], full_area: float, schedules: dict[str, Schedule] = RUNS
) -> Floats:
    """Return the losses of runs, the annealing area given as a function of rates, start and steps."""
    found = []
    for schedule in schedules.values():
        rates = schedule.learning_rates()
        annealed = rates[schedule.warmup_steps :]
        for step in STEPS:
            forward = rates[:step].sum() / AT.forward_pt
            slope = SHARED["reference_slope"] / SHARED["exponent"]
            power = slope * (forward ** -SHARED["exponent"] - 1.0)
            area = area_of(annealed, schedule.peak, step - schedule.warmup_steps)
            gain = SHARED["annealing_gain"] * area / full_area
            found.append(SHARED["reference_loss"] + power - gain)
    return np.array(found)


def weighted_area(rates: Floats, start: float, steps: int, epsilon: float) -> float:
    """Return Eq. 9, step by step: ``sum m_i·(eta_i/eta_ref)^epsilon``."""
    momentum, memory, before, area = 1.0 - 1.0 / MOMENTUM["memory"], 0.0, start, 0.0
    for rate in rates[:steps]:
        memory = momentum * memory + (before - rate)
        area += memory * max(rate / RATE, 1e-6) ** epsilon
        before = rate
    return area


def multi_power_area(
    rates: Floats, start: float, steps: int, pace: float, beta: float, gamma: float
) -> float:
    """Return how far the falls of the learning rate have taken effect, as arXiv 2503.12811 has it."""
    area, before = 0.0, start
    for k, rate in enumerate(rates[:steps]):
        if rate != before:
            rest = rates[k:steps].sum() / RATE
            # A fall to 0 that the model has not moved on from yet has taken no effect.
            moved = (max(rate, 1e-300) / RATE) ** -gamma * rest if rest else 0.0
            area += (before - rate) * (1.0 - (1.0 + pace * moved) ** -beta)
        before = rate
    return area


def fitted(law: Law, curves: Curves, wanted: Floats, start: dict[str, float]) -> dict[str, float]:
    """Return least squares over the logs of what a law samples."""
    names = list(start)

    def residuals(logs: Floats) -> Floats:
        values = dict(zip(names, np.exp(logs), strict=True))
        found = law.loss(curves.points, law.coefficients(values, np), np)
        return np.asarray(found - wanted) * 1e3

    first = np.log(list(start.values()))
    low, high = first - 1.5, first + 1.5
    for name, ends in {"memory": (11.0, 900.0), "fall_weight": (0.61, 2.4)}.items():
        if name in names:
            low[names.index(name)], high[names.index(name)] = np.log(ends)
    found = least_squares(residuals, first, bounds=(low, high), x_scale=0.1, xtol=1e-14, ftol=1e-14)
    return dict(zip(names, np.exp(found.x), strict=True))


def moved(truth: dict[str, float]) -> dict[str, float]:
    return {name: value * (1.3 if k % 2 else 0.8) for k, (name, value) in enumerate(truth.items())}


def law_of(option: str | None = None) -> Law:
    options: dict[str, Any] = {option: True} if option else {}
    return Law((Power(), Annealing(continual=False, replay=False, **options)), AT)


def test_the_weight_of_falls_is_found_again() -> None:
    truth = MOMENTUM | {"fall_weight": 1.4}

    def area_of(rates: Floats, start: float, steps: int) -> float:
        return weighted_area(rates, start, steps, 0.4)

    wanted = losses(area_of, RATE * MOMENTUM["memory"])
    found = fitted(law_of("fall_weight"), curves_of(weighted_form(-0.4, 1.5)), wanted, moved(truth))
    assert found == pytest.approx(truth, rel=1e-4)


@pytest.mark.parametrize("power", [0.7, 1.3])
def test_the_power_of_the_area_is_found_again(power: float) -> None:
    truth = MOMENTUM | {"area_power": power}

    def area_of(rates: Floats, start: float, steps: int) -> float:
        return float(weighted_area(rates, start, steps, 0.0) ** power)

    wanted = losses(area_of, (RATE * MOMENTUM["memory"]) ** power)
    curves = curves_of(weighted_form(0.0, 0.0))
    found = fitted(law_of("area_power"), curves, wanted, moved(truth))
    assert found == pytest.approx(truth, rel=1e-4)


def multi_power(schedules: dict[str, Schedule]) -> tuple[dict[str, float], Curves, Floats]:
    """Return a truth, the points of some runs, and their losses by the double sum."""
    pace, beta, gamma = 0.05, 0.6, 0.5
    memory = dict(zip(SAMPLED, (pace, beta, gamma), strict=True))
    typical = 1.0 - (1.0 + pace * AT.steps) ** -beta
    curves = curves_of(AreaForm(reference_rate=RATE, multi_power=True), schedules)

    def area_of(rates: Floats, start: float, steps: int) -> float:
        return multi_power_area(rates, start, steps, pace, beta, gamma)

    return SHARED | memory, curves, losses(area_of, RATE * typical, schedules)


def test_the_multi_power_law_is_found_again() -> None:
    """Of runs with fewer falls than are kept, so that none are merged."""
    falling = {
        "high": linear(200, 0.0, 2e-3) + constant(1000, 2e-3) + constant(1800, 2e-4),
        "middle": linear(200, 0.0, 1e-3) + constant(600, 1e-3) + linear(40, 1e-3, 1e-5),
        "low": linear(100, 0.0, 5e-4) + constant(500, 5e-4) + constant(1400, 3e-4),
    }
    falling["middle"] += constant(1160, 1e-5)
    truth, curves, wanted = multi_power(falling)
    law = law_of("multi_power")
    assert fitted(law, curves, wanted, moved(truth)) == pytest.approx(truth, rel=1e-4)


def test_falls_that_are_merged_move_a_loss_by_little() -> None:
    truth, curves, wanted = multi_power(RUNS)
    law = law_of("multi_power")
    found = law.loss(curves.points, law.coefficients(truth, np), np)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-4)


def printed() -> Floats:
    law, curves = law_of(), curves_of(weighted_form(0.0, 0.0))
    return np.asarray(law.loss(curves.points, law.coefficients(MOMENTUM, np), np))


def test_without_weight_and_with_a_power_of_1_they_are_the_printed_area() -> None:
    for form, exact in ((weighted_form(0.0, 0.0), 0.0), (weighted_form(-0.4, 1.5), 1e-8)):
        law, curves = law_of("fall_weight"), curves_of(form)
        values = MOMENTUM | {"fall_weight": 1.0}
        found = law.loss(curves.points, law.coefficients(values, np), np)
        np.testing.assert_allclose(found, printed(), rtol=exact, atol=0.0)
    law, curves = law_of("area_power"), curves_of(weighted_form(0.0, 0.0))
    values = MOMENTUM | {"area_power": 1.0}
    found = law.loss(curves.points, law.coefficients(values, np), np)
    np.testing.assert_allclose(found, printed(), rtol=1e-15)


def test_a_steep_multi_power_law_is_a_momentum_whose_memory_fades_with_the_rate() -> None:
    """``(1 + x/beta)^-beta`` is an exponential at large beta, of the forward area since the fall."""
    beta, memory = 1e7, 90.0
    law, curves = (
        law_of("multi_power"),
        curves_of(AreaForm(reference_rate=RATE, multi_power=True)),
    )
    values = SHARED | {
        "multi_power_rate": 1.0 / (memory * beta),
        "multi_power_exponent": beta,
        "multi_power_slowing": 0.0,
    }
    found = law.loss(curves.points, law.coefficients(values, np), np)
    form = AreaForm(MomentumRange(0.9, 0.999), reference_rate=RATE, memory_clock=1.0)
    # lambda of the momentum that loses a share of exp(-1/memory) in a step.
    steps = -1.0 / np.expm1(-1.0 / memory)
    momentum = law_of()
    coefficients = momentum.coefficients(SHARED | {"memory": steps}, np)
    wanted = momentum.loss(curves_of(form).points, coefficients, np)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-4)


def test_an_area_below_0_keeps_its_sign_and_one_of_0_has_a_slope() -> None:
    law, curves = law_of("area_power"), curves_of(weighted_form(0.0, 0.0))
    values = MOMENTUM | {"area_power": 0.6}
    coefficients = law.coefficients(values, np)
    points = curves.points
    flat = law.terms[1].loss(points.map(lambda _, own: own), coefficients, np)
    stable = np.array(STEPS) < RUNS["high"].steps - 800
    np.testing.assert_allclose(flat[: len(STEPS)][stable], 0.0, atol=1e-9)
    risen = points.map(lambda name, own: 0.5 * own if name == "start_pt" else own)
    warmed = law.terms[1].loss(risen, coefficients, np)[: len(STEPS)][stable]
    area = (0.5 - 1.0) * 2e-3 * MOMENTUM["memory"]
    gain = SHARED["annealing_gain"] * (abs(area) / (RATE * MOMENTUM["memory"])) ** 0.6
    np.testing.assert_allclose(warmed, gain, rtol=1e-6)
