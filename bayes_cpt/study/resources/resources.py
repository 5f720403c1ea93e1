"""Tokens, epochs, GPU time and money of a run (docs/data-and-cost.md)."""

from collections.abc import Collection
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from bayes_cpt.arrays import Floats
from bayes_cpt.checks import Check
from bayes_cpt.errors import StudyError
from bayes_cpt.study.runs import Run

ROLES = ("general", "target")
# Up to four epochs repeated tokens are worth nearly as much as new ones (Muennighoff et al. 2023,
# arXiv 2305.16264, abstract); beyond, less and less.
MANY_EPOCHS = 4.0
SECONDS_PER_HOUR = 3600.0


def _read[T](kind: type[T], table: object, required: Collection[str]) -> T:
    """Return what a table of a study.toml describes, all its problems at once."""
    check = Check()
    known = [part.name for part in fields(kind)]  # type: ignore[arg-type]
    keys = check.keys(table, allowed=known, required=required)
    values: dict[str, Any] = {key: value for key, value in keys.items() if key in known}
    if set(required) <= set(values) and isinstance(table, dict) and (values or not keys):
        resource = check.run("", kind, **values)
        if resource is not None and not check.problems:
            return resource
    raise StudyError(check.problems)


@dataclass(frozen=True)
class UniqueTokens:
    """How many different tokens there are to train on.

    Parameters
    ----------
    general, target : float, optional
        Tokens of the general and of the target data; None where nobody counted them.

    Raises
    ------
    StudyError
        If one is no positive number, or none is given.

    Examples
    --------
    >>> UniqueTokens(target=2e9).of("target")
    2000000000.0
    """

    general: float | None = None
    target: float | None = None

    def __post_init__(self) -> None:
        check = Check()
        given = [role for role in ROLES if getattr(self, role) is not None]
        if not given:
            check.add("", "neither general nor target is given", "add target = ..., or take it out")
        for role in given:
            check.positive(role, getattr(self, role), f"unique tokens of {role} data")
        check.raise_problems()
        for role in given:
            object.__setattr__(self, role, float(getattr(self, role)))

    @classmethod
    def read(cls, table: object) -> Self:
        """Return what the key ``unique_tokens`` of a study.toml holds.

        Parameters
        ----------
        table : object
            As it was read.

        Raises
        ------
        StudyError
            With every problem of the table.
        """
        return _read(cls, table, ())

    def of(self, role: str) -> float | None:
        """Return the unique tokens of a role, None where they are not known.

        Parameters
        ----------
        role : str
            ``general`` or ``target``.
        """
        tokens = getattr(self, role)
        return None if tokens is None else float(tokens)


@dataclass(frozen=True)
class Compute:
    """What a step costs.

    Parameters
    ----------
    seconds_per_step : float
        Measured, of the whole job.
    gpus : float
        How many work at it.
    price : float, optional
        Of a GPU-hour, in the currency of your choice.

    Raises
    ------
    StudyError
        If one is no positive number.

    Examples
    --------
    >>> Compute(seconds_per_step=1.8, gpus=64, price=2.5).gpu_hours(1000)
    32.0
    """

    seconds_per_step: float
    gpus: float = 1.0
    price: float | None = None

    def __post_init__(self) -> None:
        check = Check()
        check.positive("seconds_per_step", self.seconds_per_step, "seconds")
        check.positive("gpus", self.gpus, "GPUs")
        if self.price is not None:
            check.positive("price", self.price, "money for a GPU-hour")
        check.raise_problems()
        for part in fields(self):
            if getattr(self, part.name) is not None:
                object.__setattr__(self, part.name, float(getattr(self, part.name)))

    @classmethod
    def read(cls, table: object) -> Self:
        """Return what the key ``compute`` of a study.toml holds.

        Parameters
        ----------
        table : object
            As it was read.

        Raises
        ------
        StudyError
            With every problem of the table.
        """
        return _read(cls, table, ("seconds_per_step",))

    def gpu_hours(self, steps: Any) -> Any:
        """Return the GPU-hours of some numbers of steps, of their shape.

        Parameters
        ----------
        steps : float or ndarray
        """
        return steps * (self.seconds_per_step * self.gpus / SECONDS_PER_HOUR)


@dataclass(frozen=True)
class Resources:
    """What is known of the tokens and the cost of steps.

    Parameters
    ----------
    tokens_per_step : float, optional
    unique_tokens : UniqueTokens, optional
    compute : Compute, optional

    Examples
    --------
    >>> known = Resources(1e6, UniqueTokens(target=1e9), Compute(2.0, 8, 3.0))
    >>> {role: float(own) for role, own in known.epochs(4000, 0.25).items()}
    {'target': 3.0}
    >>> {name: round(float(own), 2) for name, own in known.costs(4000).items()}
    {'gpu_hours': 17.78, 'money': 53.33}
    """

    tokens_per_step: float | None = None
    unique_tokens: UniqueTokens | None = None
    compute: Compute | None = None

    def of_run(self, run: Run) -> Self:
        """Return the same with the tokens per step that a run says it takes.

        Parameters
        ----------
        run : Run
        """
        return self if run.batch_tokens is None else replace(self, tokens_per_step=run.batch_tokens)

    def epochs(self, steps: ArrayLike, replay: ArrayLike) -> dict[str, Floats]:
        """Return how often a run goes through each kind of data whose size is known, by role.

        Target tokens are steps · tokens per step · (1 - replay), general tokens the rest. What a base saw
        before is not counted.

        Parameters
        ----------
        steps : array_like
        replay : array_like
            Share of general data; 1 in PT.
        """
        if self.tokens_per_step is None or self.unique_tokens is None:
            return {}
        tokens = np.asarray(steps, dtype=np.float64) * self.tokens_per_step
        general = np.asarray(replay, dtype=np.float64)
        shares = {"general": general, "target": 1.0 - general}
        sizes = {role: self.unique_tokens.of(role) for role in ROLES}
        return {
            role: tokens * share / size
            for role, share in shares.items()
            if (size := sizes[role]) is not None
        }

    def costs(self, steps: ArrayLike) -> dict[str, Floats]:
        """Return ``gpu_hours`` of some numbers of steps and, where a price is known, ``money``.

        Parameters
        ----------
        steps : array_like
        """
        if self.compute is None:
            return {}
        hours = self.compute.gpu_hours(np.asarray(steps, dtype=np.float64))
        if self.compute.price is None:
            return {"gpu_hours": hours}
        return {"gpu_hours": hours, "money": hours * self.compute.price}

    def told(self, steps: ArrayLike, replay: ArrayLike) -> dict[str, Floats]:
        """Return the columns that a table has of some runs: ``general_epochs`` ... and costs.

        Parameters
        ----------
        steps, replay : array_like
        """
        epochs = {f"{role}_epochs": count for role, count in self.epochs(steps, replay).items()}
        return epochs | self.costs(steps)

    def of_one(self, run: Run) -> dict[str, float]:
        """Return `told` of one run.

        Parameters
        ----------
        run : Run
        """
        replay = 1.0 if run.replay is None else run.replay
        taken = self.of_run(run).told(run.schedule.steps, replay)
        return {name: float(value) for name, value in taken.items()}
