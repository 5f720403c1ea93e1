"""The study: training runs, the bases they start from and their losses (docs/study.md).

Losses are in nats/token, learning rates raw (2e-4, not 2.0), model sizes in millions of
non-embedding parameters. Everything is checked on construction; folders are read by
`bayes_cpt.study.folder`.
"""

import hashlib
import json
import warnings
from collections.abc import Collection, Iterable, Mapping
from dataclasses import InitVar, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from bayes_cpt.arrays import Floats, Ints
from bayes_cpt.checks import unknown
from bayes_cpt.errors import Problem, StudyError, StudyWarning
from bayes_cpt.study.resources import Resources
from bayes_cpt.study.runs import Base, Run
from bayes_cpt.study.suspicions import Suspicion
from bayes_cpt.study.tables import LossCurves, loss_curves
from bayes_cpt.study.validation import Parts, examine

__all__ = ["Base", "Run", "Study"]

# Of its steps, the share from which on a run counts as measured to its end.
MEASURED = 0.9


@dataclass(frozen=True, eq=False)
class Study(Parts):
    """Training runs with their losses, checked and immutable.

    Parameters
    ----------
    name : str
    general : str or None
        Validation set of the general (pre-training) data, D_pt; None where the target alone was measured.
    target : str, sequence of str or None
        Validation set of the target (continual) data, D_cpt, or several, a tuple then; None where the
        general one alone was measured.
    bases : iterable of Base
    runs : iterable of Run
    losses : DataFrame
        Columns run, step, domain, loss (nats/token); one row per validation measurement. A CPT row
        at step 0 is the base itself. Kept sorted by run, domain and step; do not change it.
    description : str
    tokens_per_step : float, optional
    unique_tokens : UniqueTokens, optional
        How many different tokens of general and of target data there are.
    compute : Compute, optional
        What a step costs.
    is_plan : bool
        A plan holds runs to predict: of its losses only those at step 0 are kept, and none is
        needed.
    origin : Origin
        What to call the parts in messages.
    rows_are_checked : bool
        Whether the losses are rows of another study, in their order.

    Attributes
    ----------
    warnings : tuple of Problem
        What is suspicious though usable; each was also given as a `StudyWarning`.

    Raises
    ------
    StudyError
        With every problem of the study at once.
    """

    warnings: tuple[Problem, ...] = field(default=(), init=False, repr=False)
    rows_are_checked: InitVar[bool] = False

    def __post_init__(self, rows_are_checked: bool) -> None:
        object.__setattr__(self, "bases", tuple(self.bases))
        object.__setattr__(self, "runs", tuple(self.runs))
        if isinstance(self.target, list | tuple):
            several = tuple(self.target)
            object.__setattr__(self, "target", several[0] if len(several) == 1 else several)
        losses, problems, cautions = examine(self, rows_are_checked=rows_are_checked)
        if problems:
            raise StudyError(problems)
        object.__setattr__(self, "losses", losses)
        object.__setattr__(self, "warnings", tuple(cautions))
        for caution in self.warnings:
            warnings.warn(str(caution), StudyWarning, stacklevel=3)

    @property
    def suspicions(self) -> tuple[Suspicion, ...]:
        """The warnings that say what looks like a mistake."""
        return tuple(own for own in self.warnings if isinstance(own, Suspicion))

    @property
    def misleading(self) -> tuple[Suspicion, ...]:
        """Those of the suspicions that make a fit be about something else."""
        return tuple(own for own in self.suspicions if own.misleads)

    @cached_property
    def trained_domains(self) -> tuple[str, ...]:
        """The validation sets of what runs train on: the general one and the targets.

        Of a general set and one target, one of which only bases have a loss has no curve: it is left out.
        """
        named = (*((self.general,) if self.general is not None else ()), *self.targets)
        if len(named) > 2:
            return named
        measured = set(self.losses.loc[self.losses["step"] > 0, "domain"].unique().tolist())
        return tuple(name for name in named if name in measured) or named

    @property
    def third_domains(self) -> tuple[str, ...]:
        """The validation sets with losses that are neither general nor target."""
        return tuple(name for name in self.domains if name not in (self.general, *self.targets))

    def mixture(self, run: Run) -> dict[str, float]:
        """Return the share of each target in a run's data that are not replay; empty where it has none.

        Parameters
        ----------
        run : Run
            Of this study.
        """
        if run.phase == "cpt" and run.targets is None and len(self.targets) == 1:
            return {self.targets[0]: 1.0}
        return run.mixture

    @cached_property
    def domains(self) -> tuple[str, ...]:
        """Validation sets with losses: the general one, the targets, then the others by name."""
        measured = set(self.losses["domain"].unique().tolist())
        first = [domain for domain in self.trained_domains if domain in measured]
        return (*first, *sorted(measured.difference(first)))

    @cached_property
    def pretraining_runs(self) -> tuple[Run, ...]:
        """The PT runs, in the order of the study."""
        return tuple(run for run in self.runs if run.phase == "pt")

    @cached_property
    def continual_runs(self) -> tuple[Run, ...]:
        """The CPT runs, in the order of the study."""
        return tuple(run for run in self.runs if run.phase == "cpt")

    def measured_runs(self, phase: str) -> tuple[Run, ...]:
        """Return the runs of a phase as far as they were measured, which is what a fit can learn from.

        Those without a loss of what runs train on are left out, and schedules cut at the last one; where no
        run has any, as in a plan, all are whole.

        Parameters
        ----------
        phase : str
            ``pt`` or ``cpt``.
        """
        measured = tuple(run for run in self._measured_runs if run.phase == phase)
        return measured or (self.continual_runs if phase == "cpt" else self.pretraining_runs)

    @cached_property
    def _measured_runs(self) -> tuple[Run, ...]:
        rows = self.losses[self.losses["domain"].isin(self.trained_domains)]
        last = rows.groupby("run")["step"].max().to_dict()
        found = []
        for run in self.runs:
            end = int(last.get(run.name, 0))
            if end >= MEASURED * run.schedule.steps:
                found.append(run)
            elif run.schedule.learning_rates()[:end].any():
                found.append(replace(run, schedule=run.schedule.first(end), branch=None))
        return tuple(found)

    @property
    def resources(self) -> Resources:
        """What is known of the tokens and the cost of steps."""
        return Resources(self.tokens_per_step, self.unique_tokens, self.compute)

    def run(self, name: str) -> Run:
        """Return the run of that name.

        Parameters
        ----------
        name : str

        Raises
        ------
        StudyError
            If there is none.
        """
        return self._named("run", name, self._runs)

    def base(self, name: str) -> Base:
        """Return the base of that name.

        Parameters
        ----------
        name : str

        Raises
        ------
        StudyError
            If there is none.
        """
        return self._named("base", name, self._bases)

    def __contains__(self, run: object) -> bool:
        """Return whether there is a run of that name."""
        return run in self._runs

    @cached_property
    def _runs(self) -> dict[str, Run]:
        return {run.name: run for run in self.runs}

    @cached_property
    def _bases(self) -> dict[str, Base]:
        return {base.name: base for base in self.bases}

    def _named[T: (Base, Run)](self, kind: str, name: str, items: dict[str, T]) -> T:
        if name in items:
            return items[name]
        raise StudyError.at(self.origin.settings, *unknown(kind, name, items))

    @cached_property
    def _curves(self) -> LossCurves:
        return loss_curves(self.losses)

    def curve(self, run: str, domain: str) -> tuple[Ints, Floats]:
        """Return the loss curve of a run on a validation set.

        Parameters
        ----------
        run, domain : str
            Names of a run and of a validation set.

        Returns
        -------
        steps : ndarray of int, shape (points,)
            Strictly rising; 0 is the base. Empty where the run was not measured on the domain.
        losses : ndarray, shape (points,)
            nats/token. Both arrays are read-only.
        """
        empty = (np.empty(0, dtype=np.int64), np.empty(0))
        return self._curves.get(self.run(run).name, {}).get(domain, empty)

    def model_size(self, run: Run) -> float | None:
        """Return the model size of a run: its own, else that of its base; None where neither says it.

        Parameters
        ----------
        run : Run
            Of this study.

        Returns
        -------
        float or None
            Millions of non-embedding parameters.
        """
        if run.model_size is not None or run.base is None:
            return run.model_size
        return self.base(run.base).model_size

    def base_loss(self, base: str, domain: str) -> float | None:
        """Return the loss (nats/token) of a base on a validation set, None if it is not known.

        The median of what its CPT runs show at step 0; without those, what the PT run it lies on
        shows at just the base's step.

        Parameters
        ----------
        base, domain : str
            Names of a base and of a validation set.
        """
        checkpoint = self.base(base)
        return self._starts.get((base, domain)) or self.loss_on_run(checkpoint, domain)

    def loss_on_run(self, base: Base, domain: str) -> float | None:
        """Return the loss at just the step of a base on the PT run that it lies on, None if not measured.

        Parameters
        ----------
        base : Base
            Of this study or another.
        domain : str
        """
        if base.run not in self:
            return None
        steps, losses = self.curve(str(base.run), domain)
        return next(iter(losses[steps == base.steps].tolist()), None)

    @cached_property
    def _starts(self) -> dict[tuple[str, str], float]:
        """Median loss of each base at step 0 of its CPT runs."""
        measured: dict[tuple[str, str], list[float]] = {}
        for run in (own for own in self.runs if own.base is not None):
            for domain, (steps, losses) in self._curves.get(run.name, {}).items():
                if steps[0] == 0:
                    measured.setdefault((str(run.base), domain), []).append(losses[0])
        return {key: float(np.median(losses)) for key, losses in measured.items()}

    def without_losses(self) -> "Study":
        """Return the study as a plan: of its losses only those at step 0 are left."""
        return self.changed(is_plan=True, rows_are_checked=True)

    def subset(self, runs: Iterable[str]) -> "Study":
        """Return the study with only some runs, all bases kept.

        A base whose PT run is left out keeps its schedule and lies on no run any more.

        Parameters
        ----------
        runs : iterable of str
            Names of those kept.

        Raises
        ------
        StudyError
            If a run is unknown, or what is left is no study.
        """
        kept = {self.run(name).name for name in ([runs] if isinstance(runs, str) else runs)}
        left, bases = tuple(run for run in self.runs if run.name in kept), self._bases_on(kept)
        losses = self.losses[self.losses["run"].isin(kept)]
        return self.changed(runs=left, bases=bases, losses=losses, rows_are_checked=True)

    def with_runs(
        self, runs: Iterable[Run], losses: Collection[tuple[str, int, str, float]] = ()
    ) -> "Study":
        """Return the study with further runs and their losses as (run, step, domain, loss).

        Parameters
        ----------
        runs : iterable of Run
        losses : collection of tuple
            Run, step, domain and loss (nats/token) of each measurement.

        Raises
        ------
        StudyError
            If what comes of it is no study.
        """
        every = self.losses
        if losses:
            rows = pd.DataFrame(losses, columns=["run", "step", "domain", "loss"])
            every = pd.concat([every, rows], ignore_index=True)
        bases = self._bases_on(self._runs)
        return self.changed(runs=(*self.runs, *runs), bases=bases, losses=every)

    def _bases_on(self, runs: Collection[str]) -> tuple[Base, ...]:
        """Return the bases; one that lies on none of these runs says so."""
        return tuple(
            base if base.run is None or base.run in runs else replace(base, run=None)
            for base in self.bases
        )

    def truncated(self, last_steps: Mapping[str, int]) -> "Study":
        """Return the study without the losses after a last step, given for some runs.

        Schedules stay whole: the runs are seen part-way, not ended.

        Parameters
        ----------
        last_steps : mapping of str to int
            Last step kept, by run.

        Raises
        ------
        StudyError
            If a run is unknown.
        """
        last = {self.run(name).name: step for name, step in last_steps.items()}
        limits = self.losses["run"].map(last).astype("float64").fillna(np.inf)
        kept = self.losses[self.losses["step"] <= limits]
        return self.changed(losses=kept, rows_are_checked=True)

    def changed(self, **changes: Any) -> "Study":
        """Return a changed copy, without a word: what warnings it has were given before.

        Parameters
        ----------
        changes
            Parameters of the study, by name.
        """
        with warnings.catch_warnings(action="ignore", category=StudyWarning):
            return replace(self, **changes)

    def digest(self) -> str:
        """Return the SHA-256 of what a fit depends on, as hexadecimal digits.

        Runs, bases, losses, tokens and the two validation sets count, in whatever order; the study's
        name, its description, what a step costs and the files it came from do not.
        """
        losses = self.losses.sort_values(["run", "domain", "step"], kind="stable")
        content: dict[str, Any] = {
            "general": self.general,
            "target": self.target,
            "tokens_per_step": self.tokens_per_step and float(self.tokens_per_step),
            "bases": sorted(repr(base) for base in self.bases),
            "runs": sorted(repr(run) for run in self.runs),
            **({"unique_tokens": repr(self.unique_tokens)} if self.unique_tokens else {}),
            "curves": list(map(list, zip(losses["run"], losses["domain"], strict=True))),
        }
        if mixtures := sorted((run.name, run.targets) for run in self.runs if run.targets):
            content["targets"] = mixtures
        named = ((run.name, run.branch) for run in self.runs)
        if branches := sorted((name, repr(at)) for name, at in named if at and at.run in self):
            content["branches"] = branches
        digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode())
        digest.update(losses["step"].to_numpy(dtype="<i8").tobytes())
        digest.update(losses["loss"].to_numpy(dtype="<f8").tobytes())
        return digest.hexdigest()
