"""What a study covers, and where a planned run leaves it."""

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
    fitted = study.continual_runs if run.phase == "cpt" else study.pretraining_runs
    notes = []
    longest = max(own.schedule.steps for own in fitted)
    if run.schedule.steps > longest * SLACK:
        notes.append(
            f"{run.schedule.steps} steps, {run.schedule.steps / longest:.1f}x the longest run"
        )
    peaks = [own.schedule.peak for own in fitted]
    if not min(peaks) / SLACK <= run.schedule.peak <= max(peaks) * SLACK:
        notes.append(f"peak LR {run.schedule.peak:g}, studied {min(peaks):g} to {max(peaks):g}")
    if run.phase == "cpt":
        notes += _outside_replay(study, run) + _outside_bases(study, plan, run)
    return notes


def _outside_replay(study: Study, run: Run) -> list[str]:
    ratios = [own.replay for own in study.continual_runs if own.replay is not None]
    if run.replay is None or min(ratios) <= run.replay <= max(ratios):
        return []
    return [f"replay {run.replay:g}, studied {min(ratios):g} to {max(ratios):g}"]


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
