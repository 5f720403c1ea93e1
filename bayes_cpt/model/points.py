"""From a study or plan to points: all that law and residuals need, as flat arrays.

A *curve* is one run on one validation set. Points are ordered by curve and rise in step inside it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from bayes_cpt.arrays import Floats, Ints
from bayes_cpt.errors import StudyError
from bayes_cpt.laws.areas import AreaForm
from bayes_cpt.laws.term import Reference
from bayes_cpt.model.groups import fitted_sizes
from bayes_cpt.model.spec import ModelSpec
from bayes_cpt.study.batches import unique_steps
from bayes_cpt.study.study import Run, Study


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
    squared_area: Any
    carried: Any
    log_peak_pt: Any
    # At the end of the PT of a CPT run's base: the sd of a misfit of size 1 and, as a share of the
    # reference, the learning rate; 0 in PT runs
    base_misfit: Any
    base_rate: Any
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

    @classmethod
    def joined(cls, columns: list[dict[str, Any]], form: AreaForm) -> Self:
        """Return the points of several curves from their columns, which are used up."""
        if not columns:
            fix = "measure the general and target validation sets in at least one run"
            raise StudyError.at("losses", "no loss is left to work on", fix)
        # The parts go as the whole grows: the areas of long logs are large.
        names = list(columns[0])
        arrays: Any = {name: np.concatenate([own.pop(name) for own in columns]) for name in names}
        return cls(**arrays, form=form)

    def map(self, function: Callable[[str, Any], Any]) -> Self:
        """Return the points with every array replaced by ``function(name, array)``."""
        arrays = {name: own for name, own in vars(self).items() if name != "form"}
        return replace(self, **{name: function(name, own) for name, own in arrays.items()})


@dataclass(frozen=True)
class Curve:
    """One run on one validation set: its name and what belongs to the whole curve.

    `base_known` says whether it starts at a measured loss: a CPT curve at its base's, a PT curve that
    branches off another one at its trunk's, after the step `start`.
    """

    run: str
    domain: str
    continual: bool
    base_known: bool
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

    The learning rate is the highest PT peak; where rho is free the geometric median of the peaks, at which
    level, slope and rho are nearly apart.
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


def losses_at(study: Study, run: Run, domain: str, steps: Ints) -> Floats:
    """Return the losses of a curve at rising steps, NaN where there is none."""
    found = np.full(steps.size, np.nan)
    if run.name in study:
        measured, losses = study.curve(run.name, domain)
        _, here, there = np.intersect1d(steps, measured, assume_unique=True, return_indices=True)
        found[here] = losses[there]
    return found
