"""What runs of a study differ in, and the families of schedules."""

import numpy as np
import pytest
from size_family import BLANK
from target_family import RUNS, continued, several

from bayes_cpt import Base, Run, Study
from bayes_cpt.study.ranges import (
    BASE,
    FAMILY,
    LENGTH,
    PEAK_RATE,
    REPLAY,
    factors,
    family,
    outside_range,
)
from bayes_cpt.study.schedules import Schedule, constant, cosine, linear

PEAK = 2e-3
WARM = linear(100, 0.0, PEAK)
TRUNK = WARM + constant(900, PEAK)


@pytest.mark.parametrize(
    ("schedule", "wanted"),
    [
        (TRUNK, "constant"),
        (WARM + constant(700, PEAK) + linear(200, PEAK, 0.0), "stable, then decay"),
        (WARM + cosine(900, PEAK), "decay throughout"),
        (linear(1000, PEAK, 0.0), "decay throughout"),
        (WARM + constant(400, PEAK) + constant(500, PEAK / 10), "stable, then decay"),
        (constant(300, PEAK) + constant(400, PEAK / 3) + constant(300, PEAK / 9), "several stages"),
        (cosine(500, PEAK) + linear(50, 0.0, PEAK) + cosine(450, PEAK), "several stages"),
    ],
)
def test_families_of_schedules(schedule: Schedule, wanted: str) -> None:
    assert family(Run("run", "pt", schedule)) == wanted
    rates = schedule.learning_rates()
    log = Schedule.from_log(np.arange(1, rates.size + 1), rates)
    assert family(Run("run", "pt", log)) == wanted
    if not schedule.warmup_steps:
        falls = linear(50, 10 * PEAK, PEAK) + schedule
        assert family(Run("run", "cpt", falls, base="stable", replay=0.25)) == wanted


def study(second: Schedule = TRUNK, replay: float = 0.25) -> Study:
    runs = (
        Run("trunk", "pt", TRUNK),
        Run("other", "pt", second),
        Run("one", "cpt", cosine(500, PEAK), base="stable", replay=0.25),
        Run("two", "cpt", cosine(500, PEAK), base="stable", replay=replay),
    )
    return Study("s", "g", "t", (Base("stable", 1000, TRUNK, "trunk"),), runs, BLANK, is_plan=True)


def alike(found: Study, phase: str) -> set[str]:
    return {factor.name for factor in factors(found, phase) if not factor.differs}


def test_runs_that_are_alike_differ_in_nothing() -> None:
    assert alike(study(), "pt") == {PEAK_RATE, LENGTH, FAMILY}
    assert alike(study(), "cpt") == {PEAK_RATE, LENGTH, FAMILY, BASE, REPLAY}


@pytest.mark.parametrize(
    ("second", "told"),
    [
        (linear(100, 0.0, 1e-3) + constant(900, 1e-3), {PEAK_RATE}),
        (linear(100, 0.0, 1.05 * PEAK) + constant(900, 1.05 * PEAK), set()),
        (WARM + constant(3900, PEAK), {LENGTH}),
        (WARM + cosine(900, PEAK), {FAMILY}),
    ],
)
def test_what_two_runs_differ_in_is_told(second: Schedule, told: set[str]) -> None:
    assert alike(study(second), "pt") == {PEAK_RATE, LENGTH, FAMILY} - told


def test_replay_ratios_differ_by_more_than_a_twentieth() -> None:
    assert REPLAY in alike(study(replay=0.27), "cpt")
    assert REPLAY not in alike(study(replay=0.5), "cpt")


def test_the_peak_of_a_cpt_run_is_its_own_and_not_that_of_its_base() -> None:
    slow = Run("slow", "cpt", linear(20, PEAK, 5e-4) + constant(480, 5e-4), "stable", 0.25)
    found = study().with_runs([slow])
    (peaks,) = (factor for factor in factors(found, "cpt") if factor.name == PEAK_RATE)
    np.testing.assert_allclose(peaks.place("slow"), np.log(5e-4))
    assert peaks.differs


def test_a_replay_ratio_is_judged_by_runs_on_the_same_targets() -> None:
    runs = (*(run for run in RUNS if "law_0" not in run.name), continued("law_0.6", "law", 0.6))
    found = several(runs=runs)
    for target, outside in (("code", []), ("law", ["replay 0, studied 0.2 to 0.6"])):
        run = continued("new", target)
        assert outside_range(found, found.with_runs([run]), run) == outside
