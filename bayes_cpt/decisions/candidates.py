"""Configurations of CPT runs as plain arrays, each of which can become a run of the study format."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.arrays import Floats, Ints
from bayes_cpt.errors import StudyWarning
from bayes_cpt.laws.schedule_ends import DECAYS, ScheduleBatch
from bayes_cpt.model.discrepancy import Configuration
from bayes_cpt.study.batches import UNSAID, Batch
from bayes_cpt.study.runs import Base, Run, mixture_words
from bayes_cpt.study.study import Study


@dataclass(frozen=True, eq=False)
class Candidates:
    """Configurations of CPT runs, one per row."""

    bases: tuple[Base, ...]  # those in use
    base: Ints  # place in `bases`, (candidates,)
    replay: Floats  # share of general data, (candidates,)
    schedules: Any  # a ScheduleBatch, or what has its steps, last_rate, schedule and ends
    # Which of the listed values each has, and its place in each range, 0...1: a column per choice
    places: Floats
    # Shares of targets in use, as `Run.mixture`; a single empty one where there is one target
    mixtures: tuple[Mapping[str, float], ...]
    mixture: Ints  # place in `mixtures`, (candidates,)
    batch: Batch = UNSAID  # of all of them, as far as it was said

    def __len__(self) -> int:
        """Return how many there are."""
        return int(self.base.size)

    def take(self, rows: "Ints | slice") -> Self:
        """Return some of them."""
        return replace(
            self,
            base=self.base[rows],
            replay=self.replay[rows],
            schedules=self.schedules.take(rows),
            places=self.places[rows],
            mixture=self.mixture[rows],
        )

    def joined(self, other: "Candidates") -> Self:
        """Return these and others of the same space."""
        bases = {base.name: base for base in (*self.bases, *other.bases)}
        moved = np.array([list(bases).index(base.name) for base in other.bases])[other.base]
        pairs = zip(vars(self.schedules).items(), vars(other.schedules).values(), strict=True)
        schedules = {name: np.concatenate([mine, theirs]) for (name, mine), theirs in pairs}
        return replace(
            self,
            bases=tuple(bases.values()),
            base=np.concatenate([self.base, moved]),
            replay=np.concatenate([self.replay, other.replay]),
            schedules=ScheduleBatch(**schedules),
            places=np.concatenate([self.places, other.places]),
            mixture=np.concatenate([self.mixture, other.mixture]),
        )

    def column(self, name: str) -> Any:
        """Return a quantity of all candidates, an array of shape (candidates,)."""
        batch = self.schedules
        match name:
            case "base":
                return np.array([base.name for base in self.bases])[self.base]
            case "loss_potential":
                return np.array([base.loss_potential for base in self.bases], float)[self.base]
            case "replay":
                return self.replay
            case "targets":
                return np.array([mixture_words(mixture) for mixture in self.mixtures])[self.mixture]
            case "relative_peak":
                peaks = [own.schedule.peak if own.schedule else np.nan for own in self.bases]
                return batch.peak / np.array(peaks)[self.base]
            case "warmup_share":
                return batch.warmup_steps / batch.steps
            case "decay_shape":
                return np.array(DECAYS)[batch.shape]
            case "decay_share":
                return batch.decay_steps / np.maximum(batch.steps - batch.warmup_steps, 1)
            case "final":
                return batch.last_rate
            case "relative_final":
                return batch.last_rate / batch.peak
        return getattr(batch, name)

    def configuration(self, forward_cpt: NDArray[np.floating]) -> Configuration:
        """Return what the law's misfit depends on."""
        batch = self.schedules
        schedules = [base.schedule for base in self.bases]
        forward_pt = np.array(
            [0.0 if schedule is None else schedule.learning_rates().sum() for schedule in schedules]
        )
        # A line down to the peak is highest at its first step.
        first = batch.initial + (batch.peak - batch.initial) / np.maximum(batch.warmup_steps, 1)
        return Configuration(
            replay=self.replay,
            initial=batch.initial,
            peak=np.maximum(batch.peak, first),
            mean=forward_cpt / batch.steps,
            last=batch.last_rate,
            forward_pt=forward_pt[self.base],
        )

    def run(self, row: int, name: str) -> Run:
        """Return one as a run of the study format."""
        base = self.bases[self.base[row]]
        return Run(
            name=name,
            phase="cpt",
            schedule=self.schedules.schedule(row),
            base=base.name,
            replay=float(self.replay[row]),
            model_size=base.model_size,
            batch_tokens=self.batch.tokens,
            sequence_length=self.batch.sequence_length,
            targets=dict(self.mixtures[self.mixture[row]]) or None,
        )

    def plan(self, study: Study, names: Sequence[str]) -> Study:
        """Return all as a plan, to be predicted or written to a file."""
        bases = [self.bases[own] for own in np.unique(self.base)]
        return plan_of(study, bases, [self.run(row, name) for row, name in enumerate(names)])


def plan_of(study: Study, bases: Sequence[Base], runs: Sequence[Run]) -> Study:
    """Return a plan of runs that nobody trained, from some bases."""
    # What a run takes of its data is told of the configuration, not of the names it has here.
    with warnings.catch_warnings(action="ignore", category=StudyWarning):
        return replace(
            study,
            name=f"{study.name}-decision",
            description="",
            # The PT run that a base lies on is no part of a plan.
            bases=tuple(replace(base, run=None) for base in bases),
            runs=tuple(runs),
            losses=study.losses.iloc[:0],
            is_plan=True,
        )
