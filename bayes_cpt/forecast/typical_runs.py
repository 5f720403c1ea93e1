"""Schedules of runs that are typical of a study, and the plan that they make."""

from collections.abc import Mapping

from bayes_cpt.laws import Reference
from bayes_cpt.model.setup import Frame
from bayes_cpt.study.batches import Batch
from bayes_cpt.study.runs import Base, Run
from bayes_cpt.study.schedules import Schedule, constant, cosine, linear
from bayes_cpt.study.study import Study

STABLE, ANNEALED = "stable", "annealed"
# Shares of a run's steps: its way from the base's learning rate to its own, and a base's anneal.
APPROACH, ANNEAL = 0.05, 0.2
ANY_LOSS = 3.0


def start_rate(frame: Frame) -> float:
    """Return the learning rate that typical CPT runs start from: 0 where that of the base is unknown.

    Parameters
    ----------
    frame : Frame
        Of a fit.
    """
    return 0.0 if frame.spec.law.unknown_base else frame.reference.learning_rate


def base_schedule(reference: Reference) -> Schedule:
    """Return a PT schedule of the reference forward area at the reference learning rate.

    Parameters
    ----------
    reference : Reference
        Of the law.
    """
    steps = max(1, round(reference.forward_pt / reference.learning_rate))
    return constant(steps, reference.learning_rate)


def annealed(base: Schedule) -> Schedule:
    """Return a constant schedule whose last fifth falls to 0.

    Parameters
    ----------
    base : Schedule
        Of PT.
    """
    fall = max(1, round(ANNEAL * base.steps))
    tail = linear(fall, base.peak, 0.0)
    return constant(base.steps - fall, base.peak) + tail if fall < base.steps else tail


def approach(steps: int, start: float, peak: float, *, decays: bool) -> Schedule:
    """Return a CPT schedule that goes from the base's rate to its own peak, then stays or decays.

    Parameters
    ----------
    steps : int
        Of the run.
    start, peak : float
        Learning rates, raw.
    decays : bool
        Whether it falls to 0 after the peak.
    """
    first = 0 if start == peak or steps < 2 else max(1, round(APPROACH * steps))
    rest = cosine(steps - first, peak) if decays else constant(steps - first, peak)
    return linear(first, start, peak) + rest if first else rest


def plan_of(
    frame: Frame,
    runs: Mapping[str, tuple[Schedule, str | None, float]],
    *,
    measured: bool = False,
    sizes: Mapping[str, float] | None = None,
) -> Study:
    """Return a plan of runs given as schedule, base (None for a PT run) and replay, by name.

    Of several targets they train on equal shares, and where batches differ they have that of most runs.

    Parameters
    ----------
    frame : Frame
    runs : mapping
    measured : bool
        Whether the bases count as measured: with a loss that stands for any.
    sizes : mapping of str to float, optional
        Model sizes of some of the runs, millions of parameters; the others have the typical one where the
        law has a size.
    """
    import pandas as pd

    usual = frame.typical_size if frame.sizes else None
    own_sizes = dict.fromkeys(runs, usual) | dict(sizes or {})
    if frame.spec.law.unknown_base:
        bases = (Base(STABLE, known=False), Base(ANNEALED, known=False))
    else:
        base = base_schedule(frame.reference)
        bases = (Base(STABLE, base.steps, base), Base(ANNEALED, base.steps, annealed(base)))
    targets = frame.domains[1:]
    shares = {target: 1.0 / len(targets) for target in targets} if len(targets) > 1 else None
    batch = frame.batches[0] if frame.batches else Batch()
    built = tuple(
        Run(name, "pt", schedule, model_size=own_sizes[name])
        if base_name is None
        else Run(
            name,
            "cpt",
            schedule,
            base_name,
            replay,
            model_size=own_sizes[name],
            batch_tokens=batch.tokens,
            sequence_length=batch.sequence_length,
            targets=shares,
        )
        for name, (schedule, base_name, replay) in runs.items()
    )
    rows = [
        (run.name, 0, domain, ANY_LOSS)
        for run in built
        for domain in frame.domains
        if measured and run.phase == "cpt"
    ]
    losses = pd.DataFrame(rows, columns=["run", "step", "domain", "loss"])
    return Study(
        "typical runs", frame.domains[0], targets or None, bases, built, losses, is_plan=True
    )
