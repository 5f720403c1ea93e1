"""A schedule in plain words: what to do with the learning rate, what that gains, and what others could."""

from typing import TYPE_CHECKING

import numpy as np

from bayes_cpt.decisions.schedule_choice import COSINE, FREE, PAIRS, WSD
from bayes_cpt.report.numbers import Estimate, fixed
from bayes_cpt.report.rendering import Words, render
from bayes_cpt.study.runs import mixture_words
from bayes_cpt.study.schedules import Schedule

if TYPE_CHECKING:
    from bayes_cpt.decisions.schedule_choice import ScheduleChoice

FAMILY_NAMES = {
    FREE: "the free schedule",
    COSINE: "the best cosine",
    WSD: "the best hold-and-decay (WSD)",
}
# Shares of its first learning rate down to which a schedule is kept, and below which it is gone.
KEPT, GONE = 0.95, 0.01
# Below this share of its first learning rate a schedule is as good as at 0.
NONE = 1e-3


def words(choice: "ScheduleChoice", interval: float = 0.9) -> Words:
    """Return which schedule to follow, what it gains, and what another shape could gain at most."""
    end, advised = choice.end, choice.advised
    weights = zip(end.weights, end.model.domains, strict=True)
    return render(
        "schedule.txt",
        {
            "base": end.base.name,
            "replay": f"{100 * end.replay:.3g}",
            "mixture": mixture_words(end.mixture),
            "taken": " and ".join(choice.taken),
            "objective": choice.objective.name,
            "goal": " + ".join(f"{weight:.3g} {name}" for weight, name in weights),
            "cap": f"{choice.cap:g}",
            "advised": advised,
            "brief": brief(choice.schedules[advised], advised),
            "course": course(choice.schedules[FREE], end.initial, choice.warmup),
            "gain": Estimate.of(choice.gains(WSD, COSINE), interval),
            "bound": Estimate.of(choice.gains(FREE, advised), interval),
            "pairs": [
                {
                    "name": FAMILY_NAMES[family],
                    "against": FAMILY_NAMES[against],
                    "gain": f"ends {Estimate.of(-choice.gains(family, against), interval).moved}",
                }
                for family, against in PAIRS
            ],
            "noise": fixed(choice.noise, 0.3 * choice.noise),
            "runs": choice.runs_needed(WSD, COSINE),
            "outside": "; ".join(choice.outside),
        },
    )


def course(schedule: Schedule, initial: float, warmup: int) -> str:
    """Return the course of a falling schedule in words.

    Parameters
    ----------
    schedule : Schedule
    initial : float
        Learning rate before its first step.
    warmup : int
        Steps until it may begin to fall.
    """
    rates = schedule.learning_rates()
    first, steps = float(rates[max(warmup - 1, 0)]), rates.size
    kept = int(np.flatnonzero(rates >= KEPT * first)[-1]) + 1
    half = int(np.flatnonzero(rates >= 0.5 * first)[-1]) + 1
    if np.isclose(first, initial, rtol=0.01):
        head = f"go on at {first:.3g}"
    else:
        head = f"{'re-warm' if first > initial else 'go down'} in {warmup} steps to {first:.3g}"
    gone = steps - int(np.flatnonzero(rates >= GONE * first)[-1]) - 1
    tail = f", below a hundredth of it for the last {gone}" if gone else ""
    if kept == steps:
        return f"{head} and stay there to the last of {steps} steps"
    return (
        f"{head}, keep that (within 5 %) to step {kept} of {steps}, be at half of it with "
        f"{steps - half} steps to go{tail}, and end at {_rate(float(rates[-1]), first)}"
    )


def brief(schedule: Schedule, family: str) -> str:
    """Return what to do with the learning rate in a few words, of the best cosine or WSD."""
    decay = schedule.segments[-1]
    peak, steps, last = f"{schedule.peak:.3g}", schedule.steps, _rate(schedule.final, schedule.peak)
    if family == COSINE:
        return f"Decay from {peak} to {last} by a cosine over {decay.steps} of {steps} steps"
    return f"Hold {peak} to step {steps - decay.steps} of {steps}, then decay to {last} (WSD)"


def _rate(rate: float, first: float) -> str:
    return f"{rate:.2g}" if rate > NONE * first else "0"
