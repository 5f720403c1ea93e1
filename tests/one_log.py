"""A run of pre-training by a law in plain NumPy, and its log."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from bayes_cpt.study.runs import Run
from bayes_cpt.study.schedules import Schedule, constant, linear

TOTAL, NOW = 10_000, 5_000
PLANNED_RATES = linear(100, 0.0, 1e-3) + constant(7_900, 1e-3) + linear(2_000, 1e-3, 0.0)
PT = Run("run", "pt", PLANNED_RATES)
FLOOR, SLOPE, EXPONENT, GAIN, MEMORY = 2.6, 2.0, 0.48, 0.15, 55.0


def loss_at(schedule: Schedule, steps: Iterable[int]) -> list[float]:
    """Return losses L0 + A·S1^-alpha - C1·S2 in plain NumPy; the memory fades as the rate falls."""
    rates = schedule.learning_rates() / schedule.peak
    area, level = np.cumsum(rates**0.57), np.ones(len(rates))
    for step, rate in enumerate(rates[1:], start=1):
        kept = np.exp(-rate / MEMORY)
        level[step] = rate + kept * (level[step - 1] - rate)
    return [
        float(FLOOR + SLOPE * area[step - 1] ** -EXPONENT - GAIN * (1.0 - level[step - 1] ** 0.69))
        for step in steps
    ]


def log_of(path: Path, until: int, run: Run = PT, step: int = 250) -> Path:
    """Write a table as a trainer logs it: rates, and a loss on held-out data."""
    steps = range(step, until + 1, step)
    rates = run.schedule.learning_rates()
    generator = np.random.default_rng(1)
    losses = np.array(loss_at(run.schedule, steps)) + 0.001 * generator.standard_normal(len(steps))
    table = pd.DataFrame(
        {"step": steps, "lr": [rates[i - 1] for i in steps], "val_loss": losses.round(5)}
    )
    table.to_csv(path, index=False)
    return path
