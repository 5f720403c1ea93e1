"""A free schedule in plain words: its course, what it gains, and whether that is the term's doing."""

from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_cpt.decisions.free_schedule import TERMS, Term
from bayes_cpt.decisions.schedule_choice import COSINE, FREE, WSD
from bayes_cpt.report.numbers import SURE, Estimate, fixed
from bayes_cpt.report.rendering import Words, render
from bayes_cpt.study.runs import mixture_words
from bayes_cpt.study.schedules import Schedule

if TYPE_CHECKING:
    from bayes_cpt.decisions.schedule_choice import ScheduleChoice

TERM_NAMES = {
    "annealing": "the law's annealing term",
    "multi_power": "the multi-power term",
    "both": "the mean of both terms",
}
FAMILY_NAMES = {
    FREE: "the free schedule",
    COSINE: "the best cosine",
    WSD: "the best hold-and-decay (WSD)",
}
RIVALS = (COSINE, WSD)
# Shares of its first learning rate down to which a schedule is kept, and below which it is gone.
KEPT, GONE = 0.95, 0.01
# Below this share of its first learning rate a schedule is as good as at 0.
NONE = 1e-3


def words(choice: "ScheduleChoice", interval: float = 0.9) -> Words:
    """Return what a choice of schedules comes to.

    Parameters
    ----------
    choice : ScheduleChoice
    interval : float
        Mass of the intervals.
    """
    end = choice.end
    weights = zip(end.weights, end.model.domains, strict=True)
    alone = choice.schedules["annealing", FREE]
    promised, kept = (Estimate.of(choice.gains("annealing", WSD, term), interval) for term in TERMS)
    return render(
        "schedule.txt",
        {
            "base": end.base.name,
            "replay": f"{100 * end.replay:.3g}",
            "steps": end.steps,
            "mixture": mixture_words(end.mixture),
            "taken": " and ".join(choice.taken),
            "objective": choice.objective.name,
            "goal": " + ".join(f"{weight:.3g} {name}" for weight, name in weights),
            "cap": f"{choice.cap:g}",
            "criterion": TERM_NAMES[choice.criterion],
            "terms": TERM_NAMES,
            "advised": choice.advised,
            "brief": brief(choice.schedules[choice.criterion, choice.advised], choice.advised),
            "course": course(choice.schedule, end.initial, choice.warmup),
            "rivals": [_rival(choice, against, interval) for against in RIVALS],
            "sure": _sure(choice, interval),
            "corner": course(alone, end.initial, choice.warmup),
            "promised": promised,
            "kept": kept,
            "survives": kept.probability_positive >= SURE,
            "misfit": fixed(choice.misfit, 0.3 * choice.misfit),
            "told": f"{choice.detectable:.1g}",
            "noise": fixed(choice.noise, 0.3 * choice.noise),
            "runs": choice.runs_needed(FREE, WSD),
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
    """Return what to do with the learning rate in a few words.

    Parameters
    ----------
    schedule : Schedule
    family : {"free", "cosine", "wsd"}
    """
    decay = schedule.segments[-1]
    peak, steps, last = f"{schedule.peak:.3g}", schedule.steps, _rate(schedule.final, schedule.peak)
    if family == COSINE:
        return f"Decay from {peak} to {last} by a cosine over {decay.steps} of {steps} steps"
    if family == WSD:
        return f"Hold {peak} to step {steps - decay.steps} of {steps}, then decay to {last} (WSD)"
    rates = schedule.learning_rates()
    kept = int(np.flatnonzero(rates >= KEPT * schedule.peak)[-1]) + 1
    return f"Hold {peak} to step {kept} of {steps}, then fall freely to {last} (lr.csv)"


def _rate(rate: float, first: float) -> str:
    return f"{rate:.2g}" if rate > NONE * first else "0"


def _rival(choice: "ScheduleChoice", against: str, interval: float) -> dict[str, Any]:
    schedule = choice.schedules[choice.criterion, against]
    decay = schedule.segments[-1]
    return {
        "name": FAMILY_NAMES[against],
        "shape": getattr(decay, "shape", "log").replace("_", " "),
        "peak": f"{schedule.peak:.3g}",
        "decay": decay.steps,
        "last": _rate(schedule.final, schedule.peak),
        "gains": [_gain(choice, against, term, interval) for term in TERMS],
        **_survival(choice, against),
    }


def _gain(choice: "ScheduleChoice", against: str, term: Term, interval: float) -> str:
    gain = Estimate.of(-choice.gains(choice.criterion, against, term), interval)
    if gain.is_told and abs(gain.median) > choice.detectable:
        return f"it ends {gain.moved} under {TERM_NAMES[term]}"
    return f"no difference can be told under {TERM_NAMES[term]}"


def _survival(choice: "ScheduleChoice", against: str) -> dict[str, Any]:
    """Return under which of the two terms the gain over another schedule is sure."""
    chances = {
        term: float(np.mean(choice.gains(choice.criterion, against, term) > 0)) for term in TERMS
    }
    lowest, best = min(chances.values()), max(chances, key=lambda term: chances[term])
    return {
        "is_told": choice.is_detectable(FREE, against),
        "both": lowest >= SURE,
        "neither": chances[best] < SURE,
        "open": lowest >= 0.5,
        "best": TERM_NAMES[best],
    }


def _sure(choice: "ScheduleChoice", interval: float) -> dict[str, Any] | None:
    """Return what the advised schedule gains over the best cosine; None where that is the advice."""
    if choice.advised == COSINE:
        return None
    gains = choice.gains(choice.criterion, COSINE, "both", family=choice.advised)
    each = [
        float(np.mean(choice.gains(choice.criterion, COSINE, term, family=choice.advised) > 0))
        for term in TERMS
    ]
    return {
        "gain": Estimate.of(gains, interval),
        "lowest": min(each),
        "is_told": choice.is_detectable(choice.advised, COSINE),
    }
