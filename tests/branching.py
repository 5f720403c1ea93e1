"""A PT study whose runs branch off one another, and its losses without noise of their own."""

import numpy as np
import pandas as pd
from synthetic import prior_as_posterior

from bayes_cpt import Posterior, Run, Study
from bayes_cpt.study.runs import Branch
from bayes_cpt.study.schedules import Schedule, constant, linear

PEAK = 1e-3
TRUNK = linear(100, 0.0, PEAK) + constant(3900, PEAK)
# The cool-down leaves the trunk, the longer one that leaves it goes on from the cool-down's own steps.
LEFT, LEFT_AGAIN = 2000, 2300
COOLED = TRUNK.first(LEFT) + linear(800, PEAK, 0.0)
HELD = COOLED.first(LEFT_AGAIN) + constant(500, 3e-4)


def measured(run: str, steps: range, shift: float = 0.0) -> list[tuple[str, int, str, float]]:
    """Return losses of a smooth curve with ripples, as a run's own."""
    return [
        (run, t, "web", 3.0 + 8.0 * t**-0.3 + shift * (t > LEFT) + 0.004 * float(np.sin(t)))
        for t in steps
    ]


def rows(losses: list[tuple[str, int, str, float]]) -> pd.DataFrame:
    """Return losses as a study takes them."""
    return pd.DataFrame(losses, columns=["run", "step", "domain", "loss"])


def branching_study(*, branches: bool = True) -> Study:
    """Return the study; without its branches three runs that have nothing in common."""
    cooled, held = (
        (Branch("trunk", LEFT), Branch("cooled", LEFT_AGAIN)) if branches else (None, None)
    )
    losses = [
        *measured("trunk", range(200, 4001, 200)),
        *measured("cooled", range(2100, 2801, 100), -0.03),
        *measured("held", range(2400, 2801, 100), -0.02),
    ]
    runs = (
        Run("trunk", "pt", TRUNK),
        Run("cooled", "pt", COOLED, branch=cooled),
        Run("held", "pt", HELD, branch=held),
    )
    return Study("branching", "web", None, (), runs, rows(losses))


def trunk_posterior(spread: float = 0.2, draws: int = 25) -> Posterior:
    """Return a stand-in for a fit of the trunk alone, so many times as wide as the prior."""
    return prior_as_posterior(branching_study().subset(["trunk"]), "pretrain", draws, spread)


def plan_of(schedule: Schedule, branch: Branch | None) -> Study:
    """Return a plan of one run."""
    runs = (Run("planned", "pt", schedule, branch=branch),)
    return Study("plan", "web", None, (), runs, rows([]), is_plan=True)
