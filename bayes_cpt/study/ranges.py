"""What a study covers, and where a planned run leaves it."""

from collections.abc import Iterable

from bayes_cpt.study.study import Base, Run, Study

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
    fitted = study.continual_runs if run.phase == "cpt" else study.pretraining_runs
    notes = []
    longest = max(own.schedule.steps for own in fitted)
    if run.schedule.steps > longest * SLACK:
        notes.append(
            f"{run.schedule.steps} steps, {run.schedule.steps / longest:.1f}x the longest run"
        )
    peaks = [own.schedule.peak for own in fitted]
    notes += outside_span("peak LR", run.schedule.peak, peaks)
    if run.phase == "cpt":
        if run.replay is not None:
            ratios = [own.replay for own in fitted if own.replay is not None]
            notes += outside_span("replay", run.replay, ratios)
        notes += outside_base(study, plan.base(str(run.base)))
    return notes


def outside_span(label: str, value: float, studied: Iterable[float]) -> list[str]:
    """Return in words that a value lies outside the studied ones.

    Parameters
    ----------
    label : str
        What the value is of.
    value : float
    studied : iterable of float
        At least one.

    Examples
    --------
    >>> outside_span("replay", 0.9, [0.0, 0.25, 0.75])
    ['replay 0.9, studied 0 to 0.75']
    """
    values = list(studied)
    if min(values) / SLACK <= value <= max(values) * SLACK:
        return []
    return [f"{label} {value:g}, studied {min(values):g} to {max(values):g}"]


def outside_base(study: Study, base: Base) -> list[str]:
    """Return in words whether, and how far, a base is none that the study's CPT runs start from.

    Parameters
    ----------
    study : Study
        What was fitted.
    base : Base
        Where the planned run starts from.
    """
    used = [study.base(str(own.base)) for own in study.continual_runs]
    if any(own.schedule == base.schedule for own in used):
        return []
    notes = [f"base {base.name}, from which no studied run starts"]
    lengths = [own.steps for own in used if own.steps]
    if base.steps and lengths and not min(lengths) <= base.steps <= max(lengths):
        notes.append(f"base at {base.steps} PT steps, studied {min(lengths)} to {max(lengths)}")
    return notes
