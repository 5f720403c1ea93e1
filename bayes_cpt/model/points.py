"""From a study or plan to points: all that law and residuals need, as flat arrays.

A *curve* is one run on one validation set. Points are ordered by curve and rise in step inside it.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from bayes_cpt.arrays import Floats, Ints
from bayes_cpt.errors import StudyError
from bayes_cpt.laws.areas import AreaForm
from bayes_cpt.laws.phase_areas import continual_areas, pretraining_areas
from bayes_cpt.laws.term import Reference
from bayes_cpt.model.groups import BatchSizes, fitted_sizes, mixture_columns, place, run_batch
from bayes_cpt.model.spec import ModelSpec
from bayes_cpt.study.batches import Batch, unique_steps
from bayes_cpt.study.study import Run, Study
from bayes_cpt.study.trunks import start_loss


@dataclass(frozen=True, eq=False)
class Points:
    """Points along curves, one entry per point; `bayes_cpt.model.evaluate` has the law there."""

    # Which curve, and which validation set, a point belongs to
    curve_index: Ints
    domain_index: Ints
    steps: Any  # step inside the run's phase
    cpt_steps: Any  # the same in CPT runs, 0 in PT runs
    learning_rate: Any  # as a share of the reference learning rate
    # What the fluctuation is larger by in a re-warm-up, nats/token; 0 after it and in PT runs
    rewarming: Any
    # As in `bayes_cpt.laws.phase_areas.PhaseAreas`: numbers of shape (points,), series (points, nodes)
    log_forward: Any
    log_shift: Any
    start_pt: Any
    level_pt: Any
    start_cpt: Any
    level_cpt: Any
    paced_steps: Any
    carried: Any
    log_peak_pt: Any
    target_share: Any  # r_cpt = 1 - replay ratio; 0 in PT runs
    # The part of r_cpt that is data of other targets than the validation set's; 0 for the general set
    other_share: Any
    # By which shares the validation sets' factors of forgetting count: those of the run's targets for the
    # general set; for a target the general set's, which is 1, of shape (points, domains)
    mixture: Any
    # Log of the model size over the reference size, and as `BatchSizes` has it; 0 where the law has none
    log_size: Any
    log_batch: Any
    # Place of the model size, and of the batch, along the coordinate of their group
    # (`bayes_cpt.model.groups`); 0 where the law does not compare them, and of batches in PT
    size_member: Ints
    batch_member: Ints
    loss: Any  # measured loss, nats/token; NaN where there is none
    # 1 in curves that start at a measured loss, and in those of them that leave a PT run there; else 0
    base_known: Any
    branched: Any
    form: AreaForm  # how the areas are reckoned, and where their series hold

    def map(self, function: Callable[[str, Any], Any]) -> Self:
        """Return the points with every array replaced by ``function(name, array)``."""
        arrays = {name: own for name, own in vars(self).items() if name != "form"}
        return replace(self, **{name: function(name, own) for name, own in arrays.items()})


@dataclass(frozen=True)
class Curve:
    """One run on one validation set: its name and what belongs to the whole curve.

    `base_known` says whether it starts at a measured loss: a CPT curve at its base's, a PT curve that
    branches off another one at its trunk's, after the step `start`. `base_steps` and `base_rate` are the
    steps of the base's PT and its last learning rate; 0 without one.
    """

    run: str
    domain: str
    continual: bool
    base_known: bool
    base_steps: int = 0
    base_rate: float = 0.0
    start: int = 0


@dataclass(frozen=True, eq=False)
class Curves:
    """Curves of a study or plan, their points, and the bases they start from."""

    curves: tuple[Curve, ...]  # in the order of `Points.curve_index`
    # Where losses are modelled or wanted. Step 0 of a CPT run is not among the points of a fit: it is
    # given, not modelled.
    points: Points
    bases: Points  # one row per curve, at step 0 of its CPT run, or where a PT run leaves its trunk

    @cached_property
    def elapsed(self) -> Floats:
        """Steps of each point since its curve started, shape (points,)."""
        starts = np.array([curve.start for curve in self.curves], dtype=np.float64)
        return np.asarray(self.points.steps - starts[self.points.curve_index])

    @cached_property
    def in_pretraining(self) -> Floats:
        """1 at points of PT curves, else 0, shape (points,)."""
        of_curves = np.array([float(not curve.continual) for curve in self.curves])
        return np.asarray(of_curves[self.points.curve_index])


def reference_of(study: Study, spec: ModelSpec | None = None) -> Reference:
    """Return the reference points of a study under a model (see `Reference`): medians over bases and runs.

    Notes
    -----
    The reference learning rate is the highest PT peak; where rho is free the geometric median of the
    peaks, at which level, slope and rho are nearly apart.
    """
    free = spec.priors if spec else {}
    cpt = study.continual_runs
    known_bases = [base.schedule for base in study.bases if base.schedule is not None]
    pretraining = [run.schedule for run in study.pretraining_runs] or known_bases
    sources = pretraining or [run.schedule for run in cpt]
    forward = [float(s.learning_rates().sum()) for s in (known_bases or sources)]
    peaks = [schedule.peak for schedule in sources]
    rate = float(np.exp(np.median(np.log(peaks)))) if "forward_power" in free else max(peaks)
    forward_cpt = [float(run.schedule.learning_rates().sum()) for run in cpt]
    sizes = (
        fitted_sizes(study, continual=spec.law.continual) if spec and spec.law.model_size else ()
    )
    return Reference(
        learning_rate=rate,
        forward_pt=float(np.median(forward)),
        forward_cpt=float(np.median(forward_cpt)) if cpt else float(np.median(forward)),
        steps=float(np.median([run.schedule.steps for run in (cpt or study.pretraining_runs)])),
        model_size=float(np.exp(np.mean(np.log(sizes)))) if sizes else 1.0,
        unique_steps=unique_steps(study) if "repeat_constant" in free else 1.0,
    )


def build_curves(
    study: Study,
    domains: Sequence[str],
    steps_of: Callable[[Run, str], Iterable[int]],
    reference: Reference,
    form: AreaForm,
    *,
    runs: Iterable[Run] | None = None,
    sizes: Sequence[float] = (),
    batches: Sequence[Batch] = (),
    batch_sizes: BatchSizes | None = None,
    trunks: Study | None = None,
    resets: bool = False,
    rewarming_error: float = 0.0,
) -> Curves:
    """Return the curves of a study or plan at chosen steps.

    Parameters
    ----------
    study : Study
        Runs and bases; losses are looked up where they were measured.
    domains : sequence of str
        Validation sets, in the order of the coefficients.
    steps_of : callable
        Steps wanted of a run on a domain, of a branch after its start; without any the curve is left out.
    form : AreaForm
        How areas are reckoned, for which momenta and forward powers.
    sizes, batches : sequence of float, and of Batch
        Model sizes and batches that the law knows; none where it does not compare them.
    batch_sizes : BatchSizes, optional
        Of the fit.
    trunks : Study, optional
        Has the runs that PT runs branch off; these start there then.
    resets : bool
        Whether CPT runs that do not say so start with a new optimiser.
    rewarming_error : float
        Of `Points.rewarming` at the start of a re-warm-up, nats/token.
    """
    curves: list[Curve] = []
    columns: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    for run in study.runs if runs is None else runs:
        continual = run.phase == "cpt"
        base = study.base(str(run.base)).schedule if continual else None
        wanted = {domain: np.unique(np.array([*steps_of(run, domain)], int)) for domain in domains}
        left = run.branch.step if run.branch else 0
        union = np.unique(np.concatenate([[0, left], *wanted.values()]))
        reset = resets if run.optimizer_state is None else run.optimizer_state == "reset"
        areas = (
            continual_areas(base, run.schedule, union, form, reset=reset)
            if continual
            else pretraining_areas(run.schedule, union, form)
        )
        warmup = run.schedule.warmup_steps if continual else 0
        ahead = np.maximum(warmup - areas.steps, 0) / max(warmup, 1)
        size = study.model_size(run) if sizes else None
        batch = run_batch(study, run, batches)
        log_batch = batch_sizes.log_share(study, run) if batch_sizes else 0.0
        for index, domain in enumerate(domains):
            if continual:
                base_loss = study.base_loss(str(run.base), domain)
            else:
                base_loss = None if trunks is None else start_loss(trunks, run, domain)
            known = base_loss is not None
            start = left if known and not continual else 0
            points_after = wanted[domain][wanted[domain] > start] if start else wanted[domain]
            if not points_after.size:
                continue
            other_share, mixture = mixture_columns(study.mixture(run), domains, index, run.replay)
            own = {
                "curve_index": len(curves),
                "domain_index": index,
                "target_share": 1.0 - (run.replay or 0.0) if continual else 0.0,
                "other_share": other_share,
                "mixture": mixture,
                "log_size": 0.0 if size is None else float(np.log(size / reference.model_size)),
                "log_batch": log_batch,
                "size_member": place(sizes, size, index),
                "batch_member": place(batches, batch, index),
                "base_known": float(known),
                "branched": float(known and not continual),
            }
            along = vars(areas) | {
                "steps": areas.steps.astype(np.float64),
                "cpt_steps": areas.steps * float(continual),
                "rewarming": rewarming_error * ahead,
            }
            along["learning_rate"] = along.pop("learning_rates") / reference.learning_rate
            # Where no loss starts a PT curve any step will do.
            at_start = np.array([start]) if continual or start else union[-1:]
            losses = _measured(study, run, domain, points_after)
            for table, steps, loss in (
                (columns, points_after, losses),
                (rows, at_start, np.array([base_loss or 0.0])),
            ):
                chosen = np.searchsorted(union, steps)
                table.append(
                    {name: np.repeat([value], steps.size, axis=0) for name, value in own.items()}
                    | {name: value[chosen] for name, value in along.items()}
                    | {"loss": loss}
                )
            end = (0, 0.0) if base is None else (base.steps, base.final)
            curves.append(Curve(run.name, domain, continual, known, *end, start))
    return Curves(tuple(curves), _points(columns, form), _points(rows, form))


def _measured(study: Study, run: Run, domain: str, wanted: Ints) -> Floats:
    """Return the losses of a curve at rising steps, NaN where there is none."""
    measured = np.full(wanted.size, np.nan)
    if run.name in study:
        steps, losses = study.curve(run.name, domain)
        _, here, there = np.intersect1d(wanted, steps, assume_unique=True, return_indices=True)
        measured[here] = losses[there]
    return measured


def _points(columns: list[dict[str, Any]], form: AreaForm) -> Points:
    if not columns:
        raise StudyError.at(
            "losses",
            "no loss is left to work on",
            "measure the general and target validation sets in at least one run",
        )
    # The parts go as the whole grows: the areas of long logs are large.
    names = list(columns[0])
    arrays: Any = {name: np.concatenate([column.pop(name) for column in columns]) for name in names}
    return Points(**arrays, form=form)
