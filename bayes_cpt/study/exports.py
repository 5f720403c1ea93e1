"""A run's schedule as trainers take it: Hugging Face and torch.

A schedule that the Trainer of Hugging Face cannot follow is refused, and torch, which takes any, is named.
The tests hold what is written to the trainers' own formulas, step by step.
"""

from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from bayes_cpt.errors import StudyError
from bayes_cpt.study.runs import Run
from bayes_cpt.study.schedules import Schedule, Segment

DECAYS = ("linear", "cosine", "one_minus_sqrt")


class Parts(NamedTuple):
    """A schedule as trainers know them: the steps of a linear warm-up, a stable stretch and a decay.

    The learning rates are those before the warm-up, after it, and at the last step.
    """

    initial: float
    peak: float
    end: float
    warmup: int = 0
    stable: int = 0
    decay: int = 0
    shape: str = "linear"


def _parts_of(schedule: Schedule) -> Parts | None:
    """Return a schedule's parts, None where it has others than warm-up, stable stretch and decay."""
    left = [segment for segment in schedule.segments if isinstance(segment, Segment)]
    if schedule.is_logged:
        return None
    start = left[0].start
    parts = Parts(start, start, start)
    if left[0].rises:
        warmup = left.pop(0)
        parts = parts._replace(warmup=warmup.steps, peak=warmup.end, end=warmup.end)
    if left and left[0].shape == "constant" and left[0].start == parts.peak:
        parts = parts._replace(stable=left.pop(0).steps)
    if left and left[0].shape in DECAYS and left[0].start == parts.peak:
        decay = left.pop(0)
        parts = parts._replace(decay=decay.steps, shape=decay.shape, end=decay.end)
    return None if left else parts


def training_arguments(run: Run) -> dict[str, Any]:
    """Return the schedule of a run as keywords of Hugging Face's ``TrainingArguments``.

    The Trainer counts learning rates from 0: its step s has the rate of the study's step s - 1. Its
    warm-ups begin at rates of their own (see `warmup_departure`). Source: transformers, optimization.py.
    """
    parts = _parts_of(run.schedule)
    kind, options = ("", {}) if parts is None else _huggingface_kind(parts)
    # Polynomial only falls.
    if parts is None or (kind == "polynomial" and parts.end > parts.peak):
        problem = "Hugging Face's schedulers cannot follow this schedule"
        fix = "export it for torch, whose LambdaLR takes any, or plan warm-up, stable, decay"
        raise StudyError.at(f"run {run.name}", problem, fix)
    return {
        "learning_rate": parts.peak,
        "max_steps": run.schedule.steps,
        "warmup_steps": parts.warmup,
        "lr_scheduler_type": kind,
        **({"lr_scheduler_kwargs": options} if options else {}),
    }


def warmup_departure(run: Run) -> str:
    """Return how the warm-up of ``TrainingArguments`` departs from a run's, in words; "" where it does not.

    It begins at 0, or with ``warmup_stable_decay`` at the last rate.
    """
    parts = _parts_of(run.schedule)
    if parts is None or not parts.warmup:
        return ""
    begins = parts.end if _huggingface_kind(parts)[0] == "warmup_stable_decay" else 0.0
    if begins == parts.initial:
        return ""
    return (
        f"Hugging Face's warm-up begins at {begins:.3g}, not at {parts.initial:.3g}: {parts.warmup} of "
        f"{run.schedule.steps} steps differ. The export for torch is exact"
    )


def _huggingface_kind(parts: Parts) -> tuple[str, dict[str, Any]]:
    if not parts.decay:
        return ("constant_with_warmup" if parts.warmup else "constant"), {}
    if parts.stable or parts.shape == "one_minus_sqrt":
        options: dict[str, Any] = {
            "num_decay_steps": parts.decay,
            "decay_type": "1-sqrt" if parts.shape == "one_minus_sqrt" else parts.shape,
            "min_lr_ratio": round(parts.end / parts.peak, 12),
        }
        return "warmup_stable_decay", options
    if parts.shape == "cosine":
        return ("cosine_with_min_lr", {"min_lr": parts.end}) if parts.end else ("cosine", {})
    return ("polynomial", {"lr_end": parts.end, "power": 1.0}) if parts.end else ("linear", {})


def torch_source(run: Run) -> str:
    """Return a Python file whose ``factor`` is what torch's ``LambdaLR`` takes.

    It is exact: ``LambdaLR`` asks for step 0 before the first step and gets the study's rate of step 1. The
    file needs neither torch nor this package.
    """
    ends = np.cumsum([segment.steps for segment in run.schedule.segments]).tolist()
    pieces = [
        (end, segment.steps, segment.shape, segment.start, segment.end)
        if isinstance(segment, Segment)
        else (end, segment.steps, "logged", segment.logged_steps, segment.logged_rates)
        for end, segment in zip(ends, run.schedule.segments, strict=True)
    ]
    lines = "\n".join(f"    {piece!r}," for piece in pieces)
    template = (files("bayes_cpt.study") / "torch_schedule.txt").read_text(encoding="utf-8")
    return template.format(name=run.name, peak=run.schedule.peak, steps=ends[-1], pieces=lines)
