"""Schedules of runs like a given one: started elsewhere, warmed up to another peak, or held."""

from bayes_cpt.study.schedules import (
    LoggedSegment,
    Schedule,
    Segment,
    constant,
    linear,
    warmup_stable_decay,
)

# Length of a re-warm-up where the run that is varied has none, as a share of its steps.
REWARMUP_SHARE = 0.025
# The share of PT over which bases of different loss potential anneal, as in Fig. 5 of arXiv 2505.07796.
ANNEALED_SHARE = 0.2


def rewarmup_steps(schedule: Schedule) -> int:
    """Return the run's own warm-up, or a fortieth of its steps where it has none."""
    given = schedule.warmup_steps
    return given if 0 < given < schedule.steps else max(round(REWARMUP_SHARE * schedule.steps), 1)


def after_warmup(schedule: Schedule) -> Schedule:
    """Return the schedule from the end of its warm-up; a schedule that only rises, held at its peak."""
    if schedule.warmup_steps == schedule.steps:
        return constant(schedule.steps, schedule.peak)
    kept: list[Segment | LoggedSegment] = []
    skipped = schedule.warmup_steps
    for segment in schedule.segments:
        if skipped >= segment.steps:
            skipped -= segment.steps
        elif skipped:
            rates = segment.learning_rates()[skipped:]
            kept += Schedule.from_log(range(1, rates.size + 1), rates).segments
            skipped = 0
        else:
            kept.append(segment)
    return Schedule(tuple(kept))


def started_at(schedule: Schedule, learning_rate: float) -> Schedule:
    """Return the run's shape after its warm-up, over all its steps, starting from a learning rate.

    Examples
    --------
    >>> run = linear(100, 0.0, 2e-3) + linear(900, 2e-3, 0.0)
    >>> started_at(run, 1e-3) == linear(1000, 1e-3, 0.0)
    True
    """
    shape = after_warmup(schedule).stretched(schedule.steps)
    return shape.scaled(learning_rate / shape.peak)


def rewarmed(schedule: Schedule, start: float, peak: float) -> Schedule:
    """Return the run's shape after a linear change from `start` to `peak`, as many steps in all.

    Parameters
    ----------
    schedule : Schedule
        The run that is varied; its own warm-up gives the length of the new one.
    start, peak : float
        Learning rate of the base, and the one that is warmed up to (or down to).
    """
    if schedule.steps == 1:
        return constant(1, peak)
    warmup = min(rewarmup_steps(schedule), schedule.steps - 1)
    shape = after_warmup(schedule).stretched(schedule.steps - warmup)
    return linear(warmup, start, peak) + shape.scaled(peak / shape.peak)


def held(schedule: Schedule, steps: int) -> Schedule:
    """Return the run's warm-up and then its peak, held to the last of `steps` steps."""
    warmup = schedule.warmup_steps
    if warmup >= steps:
        return schedule.first(steps)
    if not warmup:
        return constant(steps, schedule.peak)
    return schedule.first(warmup) + constant(steps - warmup, schedule.peak)


def annealed_base(schedule: Schedule, loss_potential: float) -> Schedule:
    """Return a PT schedule as long as a given one that anneals to a share of its peak.

    The warm-up and the peak are the given schedule's; the last fifth of the steps falls linearly, as in
    Fig. 5 of arXiv 2505.07796.
    """
    decay = max(round(ANNEALED_SHARE * schedule.steps), 1)
    return warmup_stable_decay(
        schedule.steps,
        schedule.peak,
        loss_potential * schedule.peak,
        decay_steps=decay,
        warmup_steps=min(schedule.warmup_steps, schedule.steps - decay),
    )
