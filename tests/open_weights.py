"""A study of an open-weights base: short runs that start from it, and nothing of its pre-training."""

import math

import pandas as pd

from bayes_cpt import Base, Run, Study
from bayes_cpt.study.schedules import cosine

STEPS, PEAK, WARMUP = 2000, 1e-3, 100
BASE_LOSSES = {"general": 2.94, "target": 1.84}
REPLAYS = {"pure": 0.0, "quarter": 0.25, "half": 0.5}
MEASURED = (0, 20, 60, 150, 400, 900, 1400, 2000)


def rewarmed(steps: int = STEPS, peak: float = PEAK) -> Run:
    """Return a run that warms the base up and anneals it again."""
    return Run("long", "cpt", cosine(steps, peak, warmup_steps=WARMUP), base="open", replay=0.3)


def open_study() -> Study:
    """Return runs at three replay ratios; losses move as such runs' do, and stand for no real ones."""
    schedule = rewarmed().schedule
    runs = tuple(Run(name, "cpt", schedule, base="open", replay=r) for name, r in REPLAYS.items())
    rows = [
        (name, step, domain, loss + _change(domain, replay, step))
        for name, replay in REPLAYS.items()
        for domain, loss in BASE_LOSSES.items()
        for step in MEASURED
    ]
    losses = pd.DataFrame(rows, columns=["run", "step", "domain", "loss"])
    return Study("open weights", "general", "target", (Base("open", known=False),), runs, losses)


def _change(domain: str, replay: float, step: int) -> float:
    progress = -math.expm1(-0.3 * math.log1p(step / 20))
    ripple = 0.004 * math.sin(step)
    size = 0.3 * (1.0 - replay) ** 2 if domain == "general" else -0.5 * (1.0 - 0.3 * replay)
    return size * progress + (ripple if step else 0.0)
