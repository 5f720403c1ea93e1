"""A free schedule in plain words: its course, what it gains, and whether that is the term's doing."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.decisions.schedule.schedule_end import TERMS
from bayes_cpt.report.landmark_words import chance
from bayes_cpt.study.schedules import Schedule

if TYPE_CHECKING:
    from bayes_cpt.decisions.schedule.schedule_choice import ScheduleChoice

type Floats = NDArray[np.floating]

TERM_NAMES = {
    "annealing": "the law's annealing term",
    "multi_power": "the multi-power term",
    "both": "the mean of both terms",
}
FAMILY_NAMES = {"cosine": "the best cosine", "wsd": "the best hold-and-decay (WSD)"}
# From here on something is as good as certain.
SURE = 0.9
# Shares of its first learning rate down to which a schedule is kept, and below which it is gone.
KEPT, GONE = 0.95, 0.01
# Below this share of its first learning rate a schedule is at 0.
NONE = 1e-6
# Nats that nobody would change a schedule for.
NOTHING = 0.001


def advise(choice: "ScheduleChoice", interval: float = 0.9) -> list[str]:
    """Return what a choice of schedules comes to, one paragraph per question.

    Parameters
    ----------
    choice : ScheduleChoice
    interval : float
        Mass of the intervals in brackets.
    """
    found = [_course(choice), _gains(choice, interval), _artefact(choice), _verdict(choice)]
    if choice.outside:
        found.append(f"Mind: extrapolates: {'; '.join(choice.outside)}.")
    return found


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
    last = float(rates[-1]) if rates[-1] > NONE * first else 0.0
    gone = steps - int(np.flatnonzero(rates >= GONE * first)[-1]) - 1
    tail = f", below a hundredth of it for the last {gone}" if gone else ""
    if kept == steps:
        return f"{head} and stay there to the last of {steps} steps"
    return (
        f"{head}, keep that (within 5 %) to step {kept} of {steps}, be at half of it with "
        f"{steps - half} steps to go{tail}, and end at {last:.2g}"
    )


def _course(choice: "ScheduleChoice") -> str:
    end = choice.end
    weights = dict(zip(end.model.domains, end.weights, strict=True))
    goal = " + ".join(f"{weight:.3g} {name}" for name, weight in weights.items())
    return (
        f"Schedule: from {end.base.name} with {100 * end.replay:.3g} % general data, "
        f"{course(choice.schedule, end.initial, choice.warmup)}. Of all falling schedules up to "
        f"{choice.cap:g} that has the lowest expected loss ({goal}) under "
        f"{TERM_NAMES[choice.criterion]}."
    )


def _gains(choice: "ScheduleChoice", interval: float) -> str:
    parts = []
    for against, name in FAMILY_NAMES.items():
        own = choice.schedules[choice.criterion, against]
        ways = [
            f"{_moved(choice.gains(choice.criterion, against, term), interval)} by {TERM_NAMES[term]}"
            for term in TERMS
        ]
        parts.append(f"beside {name} ({_shape(own)}) it ends {' and '.join(ways)}")
    return f"Gain: draw by draw, {'; '.join(parts)}."


def _shape(schedule: Schedule) -> str:
    decay = schedule.segments[-1]
    shape = getattr(decay, "shape", "log").replace("_", " ")
    return (
        f"peak {schedule.peak:.3g}, {shape} decay over {decay.steps} steps to {schedule.final:.2g}"
    )


def _artefact(choice: "ScheduleChoice") -> str:
    promised, kept = (choice.gains("annealing", "wsd", term) for term in TERMS)
    alone = course(choice.schedules["annealing", "free"], choice.end.initial, choice.warmup)
    text = (
        "Is it the term's doing? At a given forward area the annealing term is linear in the learning "
        f"rates, so that under it alone the best is a corner: {alone}. Over the best WSD it promises "
        f"{promised.mean():.4f} nats ({chance(float(np.mean(promised > 0)))}). Under the multi-power term, "
        f"which on the study's own runs differs from it by {choice.misfit:.4f} nats (root mean square), "
        f"the same schedule ends {_plain(kept)}"
    )
    if np.mean(kept > 0) >= SURE:
        return f"{text}: the gain survives."
    return (
        f"{text}: the gain does not survive. It rests on a form that no run of the study has tried; at a "
        "learning rate of 0 nothing is learnt, so that no run can show it."
    )


def _verdict(choice: "ScheduleChoice") -> str:
    parts = [_survival(choice, against) for against in FAMILY_NAMES]
    over = float(choice.gains(choice.criterion, "wsd", "both").mean())
    if over < NOTHING:
        parts.append(
            f"over the best WSD {max(over, 0.0):.4f} nats are to be had on average over both terms: take "
            "whichever of the two is easier to train"
        )
    else:
        runs = int(np.ceil(8.0 * (choice.noise / over) ** 2))
        parts.append(
            f"a single run moves by {choice.noise:.3f} nats (sd) about the law, so that about {runs} "
            "runs of each would be needed to see the gain over WSD"
        )
    return f"Verdict: {'; '.join(parts)}."


def _survival(choice: "ScheduleChoice", against: str) -> str:
    chances = {
        term: float(np.mean(choice.gains(choice.criterion, against, term) > 0)) for term in TERMS
    }
    name, lowest = FAMILY_NAMES[against], min(chances.values())
    best = max(chances, key=lambda term: chances[term])
    if lowest >= SURE:
        return f"the gain over {name} survives under both terms"
    if chances[best] < SURE:
        return f"a gain over {name} is sure under neither term"
    if lowest >= 0.5:
        return f"the gain over {name} is sure only under {TERM_NAMES[best]}"
    return f"the gain over {name} rests on {TERM_NAMES[best]} and does not survive the other"


def _moved(gains: Floats, interval: float) -> str:
    median, lower, upper = np.quantile(gains, [0.5, 0.5 - interval / 2, 0.5 + interval / 2])
    sure = float(np.mean(gains > 0 if median > 0 else gains <= 0))
    if median < 0:
        lower, upper = -upper, -lower
    way = "lower" if median > 0 else "higher"
    return f"{abs(median):.4f} nats {way} ({lower:.4f} to {upper:.4f}; {chance(sure)})"


def _plain(gains: Floats) -> str:
    mean = float(gains.mean())
    return f"{abs(mean):.4f} nats {'below' if mean > 0 else 'above'} it"
