"""Which measured points of a run enter a fit, and whether a study has what a law needs."""

import warnings
from collections.abc import Iterable, Sequence

import numpy as np

from bayes_cpt.errors import Problem, StudyError, StudyWarning
from bayes_cpt.model.groups import GAIN_BY_BATCH, check_sizes, fitted_sizes
from bayes_cpt.model.law_table import ResidualTable
from bayes_cpt.model.points import Curves
from bayes_cpt.model.spec import ModelSpec
from bayes_cpt.study.batches import batches_of
from bayes_cpt.study.ranges import ALIKE_RATIO
from bayes_cpt.study.study import Run, Study
from bayes_cpt.study.trunks import own_curve

# Of a run that is short beside the longest one its last quarter is kept.
MOST_SKIPPED = 0.75
# Points of a curve that enter a fit at most (see `thinned`); in large studies so many of all curves, but of
# each no fewer.
MOST_POINTS, STUDY_POINTS, FEWEST_POINTS = 500, 10_000, 100


def first_step(study: Study, run: Run, residuals: ResidualTable) -> float:
    """Return the step of a run up to which its losses are left out: the power law comes after it.

    In CPT that is 0, in PT the run's own warm-up and the share `skip_pretraining` of the run; and, one step
    for all of the study, `skip_warmups` times its longest warm-up, but no more than the share
    `skip_longest` of its longest run, nor than three quarters of the run itself.
    """
    if run.phase == "cpt":
        return 0.0
    schedules = [run.schedule, *(other.schedule for other in study.pretraining_runs)]
    warmups = residuals.skip_warmups * max(schedule.warmup_steps for schedule in schedules)
    longest = residuals.skip_longest * max(schedule.steps for schedule in schedules)
    share = residuals.skip_pretraining * run.schedule.steps
    common = min(warmups, longest, MOST_SKIPPED * run.schedule.steps)
    return max(float(run.schedule.warmup_steps), share, common)


def observed_steps(study: Study, run: Run, domain: str, residuals: ResidualTable) -> list[int]:
    """Return the measured steps of a curve that enter a fit: those after its `first_step`.

    Of a run that branches off another one of the study those after the branch.
    """
    steps, _ = own_curve(study, run, domain)
    return [int(step) for step in steps[steps > first_step(study, run, residuals)]]


def most_points(study: Study) -> int:
    """Return how many points of a curve enter a fit at most: the time that it takes grows with all."""
    curves = len(study.runs) * len(study.trained_domains)
    return min(MOST_POINTS, max(FEWEST_POINTS, STUDY_POINTS // curves))


def thinned(steps: Sequence[int], onset: float, most: int = MOST_POINTS) -> list[int]:
    """Return at most so many steps of a curve: half evenly spread, half evenly in ``log(1 + t/onset)``.

    Along a curve residuals are correlated over a memory tau, so points much closer than tau tell the same.
    With gaps of at most g between those kept, a quantity that the whole curve tells is known with
    ``sqrt(x/tanh(x))`` times the sd that all points would give, ``x = g/(2·tau)``: 1 % more at gaps of half
    the memory, 4 % at gaps of the memory itself. What the first points tell has up to twice that on top;
    where fluctuations all but vanish at the end of a decay, its last points up to a quarter of an sd (both
    tested). The size of the fluctuation itself is known to a relative ``1/sqrt(2·most)``.
    Where fluctuations last much shorter than the gaps, bands are right but wider than they had to be.

    Examples
    --------
    >>> thinned(range(1, 10_001), onset=10.0, most=8)
    [1, 97, 1023, 3334, 6667, 10000]
    """
    if len(steps) <= most:
        return list(steps)
    every = np.asarray(steps, dtype=np.float64)
    first, last = np.log1p(every[[0, -1]] / onset)
    evenly = np.linspace(every[0], every[-1], most // 2)
    early = onset * np.expm1(np.linspace(first, last, most - most // 2))
    nearest = np.searchsorted(0.5 * (every[1:] + every[:-1]), np.concatenate([evenly, early]))
    return [int(step) for step in every[np.unique(nearest)]]


def note_thinned(residuals: ResidualTable, study: Study, curves: Curves) -> None:
    """Say which long logs enter with a part of their points."""
    kept = np.bincount(curves.points.curve_index).tolist()
    thin = []
    for curve, count in zip(curves.curves, kept, strict=True):
        if curve.run not in study:
            continue
        if count < study.curve(curve.run, curve.domain)[0].size > most_points(study):
            measured = len(observed_steps(study, study.run(curve.run), curve.domain, residuals))
            thin += [(measured, count, curve)] if measured > count else []
    if thin:
        measured, count, curve = max(thin, key=lambda counts: counts[0])
        problem = Problem(
            f"study {study.name}, run {curve.run}, domain {curve.domain}",
            f"{count} of its {measured} losses enter the fit"
            + f", and {len(thin) - 1} more long logs are thinned" * (len(thin) > 1)
            + ": neighbouring losses of a curve tell the same",
            "log less often, or leave it so",
        )
        warnings.warn(str(problem), StudyWarning, stacklevel=3)


def check_fits(spec: ModelSpec, study: Study) -> None:
    """Raise StudyError unless a study has runs that a law is about, and it a term for their replay."""
    runs = study.continual_runs
    replays = sorted({run.replay for run in runs if run.replay is not None})
    problem = ""
    if spec.law.continual and not runs:
        problem = "there is no CPT run"
        fix = f"use --model {usual_model(study)}, or add CPT runs: bayes-cpt advise names some"
    elif not spec.law.continual and not study.pretraining_runs:
        problem, fix = "there is no PT run", "use --model cpt or cpt-replay, or add PT runs"
    elif spec.law.continual and len(replays) > 1 and not spec.law.uses_replay:
        problem = f"the runs have replay ratios {replays[0]:g} to {replays[-1]:g}"
        problem += f", and the law {spec.name} has no term for them"
        fix = "use --model cpt-replay, or keep runs of one replay ratio"
    if problem:
        raise StudyError.at(f"study {study.name}, model {spec.name}", problem, fix)


def usual_model(study: Study) -> str:
    """Return the shipped model for a study; of PT alone with a term for size where sizes differ."""
    if study.continual_runs:
        return "cpt-replay"
    said = all(study.model_size(run) is not None for run in study.runs)
    return "pretrain-sizes" if said and sizes_apart(study, continual=False) else "pretrain"


def sizes_apart(study: Study, *, continual: bool) -> tuple[float, ...]:
    """Return the model sizes that are fitted where they differ, in millions; else none."""
    sizes = fitted_sizes(study, continual=continual)
    return sizes if sizes and sizes[-1] > ALIKE_RATIO * sizes[0] else ()


def check_replays(spec: ModelSpec, study: Study, asked: Iterable[tuple[str, float | None]]) -> None:
    """Raise StudyError if a law without replay is asked for a ratio that it was not fitted to."""
    if spec.law.uses_replay or not spec.law.continual:
        return
    fitted = {run.replay for run in study.continual_runs if run.replay is not None}
    for place, replay in asked:
        if fitted and replay is not None and not np.isclose(replay, [*fitted]).any():
            problem = f"replay {replay:g} is asked for, the fit is of runs at {min(fitted):g}"
            problem += f", and the law {spec.name} has no term for replay"
            fix = f"fit with --model cpt-replay, or ask for replay {min(fitted):g}"
            raise StudyError.at(place, problem, fix)


def note_batches(spec: ModelSpec, study: Study) -> None:
    """Warn where batch sizes or sequence lengths differ and the law does not compare them."""
    if spec.law.batches or not spec.law.continual:
        return
    differing, batches = [], batches_of(study)
    said = all(batch.tokens is not None for batch in batches)
    for place, name in enumerate(("batch sizes", "sequence lengths")):
        values = sorted(batch.numbers[place] for batch in batches if batch.numbers[place])
        compared = place == 0 and said and GAIN_BY_BATCH in spec.priors
        if values and not compared and values[-1] > ALIKE_RATIO * values[0]:
            differing.append(f"{name} {values[0]:g} to {values[-1]:g}")
    if differing:
        problem = Problem(
            f"study {study.name}, model {spec.name}",
            f"the CPT runs have {' and '.join(differing)}, and the law takes the shift of all for one",
            "keep runs of one batch"
            # Its law needs the schedules of the bases.
            + ", or use --model cpt-replay-batch" * all(base.schedule for base in study.bases),
        )
        warnings.warn(str(problem), StudyWarning, stacklevel=4)


def check_size(spec: ModelSpec, study: Study) -> None:
    """Raise StudyError if a size that the law has is not said; warn if sizes differ and it has none."""
    continual = spec.law.continual
    if spec.law.model_size:
        runs = study.runs if continual else study.pretraining_runs
        check_sizes(study, runs, [base for base in study.bases if base.schedule] * continual)
        return
    if sizes := sizes_apart(study, continual=continual):
        problem = Problem(
            f"study {study.name}, model {spec.name}",
            f"the runs have models of {sizes[0]:g}M to {sizes[-1]:g}M parameters, and the law has no term "
            "for size",
            f"use --model {'cpt-replay' if continual else 'pretrain'}-sizes, or keep runs of one size",
        )
        warnings.warn(str(problem), StudyWarning, stacklevel=4)
