"""Stretches of a learning-rate schedule: segments with a shape, and logged learning rates."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.checks import Check, suggestion

# No training run is longer; a schedule is held in memory step by step.
LONGEST_STEPS = 10_000_000

# Each maps (start, end, fraction of the segment done) to learning rates.
SHAPES: dict[str, Callable[[float, float, Floats], Floats]] = {
    "constant": lambda start, end, fraction: np.full_like(fraction, end),
    "linear": lambda start, end, fraction: start + (end - start) * fraction,
    "cosine": lambda start, end, fraction: (
        end + (start - end) * 0.5 * (1.0 + np.cos(np.pi * fraction))
    ),
    "one_minus_sqrt": lambda start, end, fraction: start + (end - start) * np.sqrt(fraction),
    "exponential": lambda start, end, fraction: start * (end / start) ** fraction,
}


@dataclass(frozen=True)
class Segment:
    """A stretch of a schedule with one shape.

    Parameters
    ----------
    shape : str
        ``constant``, ``linear``, ``cosine``, ``one_minus_sqrt`` (``start + (end - start) *
        sqrt(i/n)``) or ``exponential`` (geometric from `start` to `end`).
    steps : int
        Number of optimiser steps, at least 1.
    start, end : float
        Raw learning rates before the first step and at the last step. Equal for ``constant``, both
        positive for ``exponential``.

    Raises
    ------
    StudyError
        If a value is impossible; all problems of the segment at once.

    Examples
    --------
    >>> Segment("linear", 4, 0.0, 2e-3).learning_rates().tolist()
    [0.0005, 0.001, 0.0015, 0.002]
    """

    shape: str
    steps: int
    start: float
    end: float
    KEYS: ClassVar[tuple[str, ...]] = ("shape", "steps", "start", "end")

    def __post_init__(self) -> None:
        check = Check()
        if not isinstance(self.shape, str) or self.shape not in SHAPES:
            check.add(
                "key shape",
                f"shape is {self.shape!r}",
                f"write one of {', '.join(SHAPES)}{suggestion(self.shape, SHAPES)}",
            )
        check_length(check, self.steps)
        rates_fine = check.rate("start", self.start) & check.rate("end", self.end)
        if rates_fine and self.shape == "constant" and self.start != self.end:
            check.add(
                "key end",
                f"a constant segment starts at {self.start:g} and ends at {self.end:g}",
                "make start and end equal, or write shape = linear",
            )
        if rates_fine and self.shape == "exponential" and not (self.start > 0 and self.end > 0):
            check.add(
                "key end" if self.start > 0 else "key start",
                "an exponential segment cannot start or end at 0",
                "end it at a small positive learning rate, or choose another shape",
            )
        check.raise_problems()
        object.__setattr__(self, "steps", int(self.steps))
        object.__setattr__(self, "start", float(self.start))
        object.__setattr__(self, "end", float(self.end))

    @property
    def rises(self) -> bool:
        """Whether this is a linear segment that rises: at the start of a run, its warm-up."""
        return self.shape == "linear" and self.end > self.start

    @property
    def highest(self) -> float:
        """The higher of its two ends."""
        return max(self.start, self.end)

    def learning_rates(self) -> Floats:
        """Return the raw learning rate of each step, shape (steps,)."""
        fraction = np.arange(1, self.steps + 1) / self.steps
        rates = SHAPES[self.shape](self.start, self.end, fraction)
        # Rounding must not keep a segment from meeting the next one exactly.
        rates[-1] = self.end
        return rates

    def scaled(self, factor: float) -> Self:
        """Return the segment with both learning rates multiplied by `factor`.

        Parameters
        ----------
        factor : float
            Above 0.
        """
        return replace(self, start=self.start * factor, end=self.end * factor)

    def stretched(self, steps: int) -> Self:
        """Return the same shape over another number of steps.

        Parameters
        ----------
        steps : int
            At least 1.
        """
        return replace(self, steps=steps)

    def first(self, steps: int) -> "Segment | LoggedSegment":
        """Return the first steps of it, to the last digit: as a log unless it is constant.

        Parameters
        ----------
        steps : int
            How many, from 1 to all.
        """
        if self.shape == "constant":
            return self.stretched(steps)
        rates = self.learning_rates()[:steps]
        return LoggedSegment(steps, tuple(range(1, steps + 1)), tuple(rates.tolist()))


@dataclass(frozen=True)
class LoggedSegment:
    """Learning rates read from a log, at some or all steps of a stretch.

    Parameters
    ----------
    steps : int
        Number of steps of the stretch.
    logged_steps : tuple of int
        Strictly rising, from 1 to `steps`.
    logged_rates : tuple of float
        Raw learning rate at each of `logged_steps`. Between them rates are interpolated linearly;
        before the first and after the last they are held.
    """

    steps: int
    logged_steps: tuple[int, ...]
    logged_rates: tuple[float, ...]

    def __post_init__(self) -> None:
        check = Check()
        check_length(check, self.steps)
        check.raise_problems()
        steps = np.asarray(self.logged_steps)
        rates = np.asarray(self.logged_rates)
        if steps.ndim != 1 or steps.shape != rates.shape or not steps.size:
            check.add(
                "logged learning rates",
                f"{steps.size} steps and {rates.size} learning rates are logged",
                "log one learning rate per logged step, and at least one",
            )
        check.raise_problems()
        for index in np.flatnonzero(np.diff(steps) <= 0)[:1]:
            check.add(
                f"step {steps[index + 1]}",
                f"the logged step {steps[index + 1]} follows step {steps[index]}",
                "log every step once, in rising order",
            )
        for step in steps[(steps < 1) | (steps > self.steps)][:1]:
            check.add(
                f"step {step}",
                f"the logged step {step} lies outside 1 to {self.steps}",
                "count steps from 1 inside the phase",
            )
        for index in np.flatnonzero(~np.isfinite(rates) | (rates < 0))[:1]:
            check.add(
                f"step {steps[index]}",
                f"the logged learning rate is {rates[index]:g}",
                "log finite learning rates, not below 0",
            )
        check.raise_problems()

    def first(self, steps: int) -> "LoggedSegment":
        """Return the first steps of it, every one logged.

        Parameters
        ----------
        steps : int
            How many, from 1 to all.
        """
        rates = self.learning_rates()[:steps]
        return replace(
            self,
            steps=steps,
            logged_steps=tuple(range(1, steps + 1)),
            logged_rates=tuple(rates.tolist()),
        )

    @property
    def highest(self) -> float:
        """Highest logged learning rate."""
        return max(self.logged_rates)

    @property
    def interpolated_steps(self) -> int:
        """How many steps have no logged learning rate of their own."""
        return self.steps - len(self.logged_steps)

    def learning_rates(self) -> Floats:
        """Return the raw learning rate of each step, shape (steps,)."""
        return np.interp(np.arange(1, self.steps + 1), self.logged_steps, self.logged_rates)

    def scaled(self, factor: float) -> Self:
        """Return the segment with every learning rate multiplied by `factor`.

        Parameters
        ----------
        factor : float
            Above 0.
        """
        return replace(self, logged_rates=tuple(rate * factor for rate in self.logged_rates))

    def stretched(self, steps: int) -> Self:
        """Return the same course over another number of steps: the last step keeps its rate.

        Parameters
        ----------
        steps : int
            At least 1.
        """
        places = np.arange(1, steps + 1) * (self.steps / steps)
        rates = np.interp(places, np.arange(1, self.steps + 1), self.learning_rates())
        return replace(
            self,
            steps=steps,
            logged_steps=tuple(range(1, steps + 1)),
            logged_rates=tuple(rates.tolist()),
        )


def check_length(check: Check, steps: object) -> None:
    """Note a problem unless `steps` is a number of steps that can be trained.

    Parameters
    ----------
    check : Check
        Collects the problem.
    steps : object
    """
    if check.count("steps", steps) and int(steps) > LONGEST_STEPS:  # type: ignore[call-overload]
        check.add(
            "key steps",
            f"steps is {steps}, more than the {LONGEST_STEPS} that any run has",
            "count optimiser steps, not tokens or samples",
        )


def segment_from_toml(table: object) -> Segment:
    """Return the segment that a table of a study.toml describes.

    Parameters
    ----------
    table : dict
        With shape, steps, start and end.

    Raises
    ------
    StudyError
        If it is not a table, a key is missing or unknown, or a value is impossible.
    """
    check = Check()
    keys = check.keys(table, allowed=Segment.KEYS, required=Segment.KEYS)
    check.raise_problems()
    return Segment(**keys)


def rising_stretch(rates: Floats) -> int:
    """Return how many of the first rates rise strictly, 0 if not even the second does.

    Parameters
    ----------
    rates : ndarray, shape (steps,)
    """
    falls = np.flatnonzero(np.diff(rates) <= 0)
    stretch = int(falls[0]) + 1 if falls.size else rates.size
    return stretch if stretch > 1 else 0
