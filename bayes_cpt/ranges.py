"""What a study covers, and where a planned run leaves it."""

from collections.abc import Iterable

from bayes_cpt.study import Run, Study

# A learning rate or a step count a little beyond the studied ones is no extrapolation.
SLACK = 1.001


def outside_range(study: Study, plan: Study, run: Run) -> list[str]:
    """Return in words where a run lies outside what the study's runs of its phase cover.

    Parameters
    ----------
    study : Study
        What was fitted.
    plan : Study
        Where the run and its base come from.
    run : Run

    Returns
    -------
    list of str
        Empty where it lies inside.
    """
    fitted = _fitted(study, run.phase)
    notes = outside_steps(study, run.schedule.steps, run.phase)
    peaks = [own.schedule.peak for own in fitted]
    notes += outside_span("peak LR", run.schedule.peak, peaks)
    if run.phase == "cpt":
        if run.replay is not None:
            ratios = [own.replay for own in fitted if own.replay is not None]
            notes += outside_span("replay", run.replay, ratios)
        notes += _outside_bases(study, plan, run)
    return notes


def outside_steps(study: Study, steps: float, phase: str = "cpt") -> list[str]:
    """Return in words how far a number of steps exceeds the study's longest run of that phase."""
    longest = max(own.schedule.steps for own in _fitted(study, phase))
    if steps <= longest * SLACK:
        return []
    return [f"{steps:.0f} steps, {steps / longest:.1f}x the longest run"]


def outside_span(label: str, value: float, studied: Iterable[float]) -> list[str]:
    """Return in words that a value lies outside the studied ones.

    Examples
    --------
    >>> outside_span("replay", 0.9, [0.0, 0.25, 0.75])
    ['replay 0.9, studied 0 to 0.75']
    """
    values = list(studied)
    if min(values) / SLACK <= value <= max(values) * SLACK:
        return []
    return [f"{label} {value:g}, studied {min(values):g} to {max(values):g}"]


def _fitted(study: Study, phase: str) -> tuple[Run, ...]:
    return study.continual_runs if phase == "cpt" else study.pretraining_runs


def _outside_bases(study: Study, plan: Study, run: Run) -> list[str]:
    base = plan.base(str(run.base))
    used = [study.base(str(own.base)) for own in study.continual_runs]
    if any(own.schedule == base.schedule for own in used):
        return []
    notes = [f"base {base.name}, from which no studied run starts"]
    lengths = [own.steps for own in used if own.steps]
    if base.steps and lengths and not min(lengths) <= base.steps <= max(lengths):
        notes.append(f"base at {base.steps} PT steps, studied {min(lengths)} to {max(lengths)}")
    return notes
