"""Which configurations may be chosen: every quantity of a CPT run fixed, listed, or in a range."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from bayes_cpt.arrays import Floats
from bayes_cpt.checks import is_number
from bayes_cpt.errors import SpecError
from bayes_cpt.strict import Strict, checked
from bayes_cpt.study.batches import Batch, batches_of
from bayes_cpt.study.resources import Compute, Resources, UniqueTokens
from bayes_cpt.study.runs import HIGHEST_LEARNING_RATE, checked_mixture
from bayes_cpt.study.study import Study
from bayes_cpt.toml_files import read_toml

FIX = "write a number, a list of numbers, or a range { low = ..., high = ... }"
# Quantities that matter by ratio: a range of them is sampled on a logarithmic scale.
LOGARITHMIC = ("peak", "relative_peak", "steps", "tokens", "gpu_hours", "money")
# How a length may be said, and all ways to say one thing.
LENGTHS = ("steps", "tokens", "gpu_hours", "money")
WAYS = (
    ("peak", "relative_peak"),
    ("warmup_steps", "warmup_share"),
    ("final", "relative_final"),
    LENGTHS,
)
# What each quantity may be, and where its range ends by nature.
LIMITS: dict[str, tuple[float, float]] = {
    "replay": (0.0, 1.0),
    "peak": (0.0, HIGHEST_LEARNING_RATE),
    "relative_peak": (0.0, np.inf),
    "warmup_steps": (0.0, np.inf),
    "warmup_share": (0.0, 0.9),
    "decay_share": (0.0, 1.0),
    "final": (0.0, HIGHEST_LEARNING_RATE),
    "relative_final": (0.0, 1.0),
    "steps": (1.0, np.inf),
    "tokens": (1.0, np.inf),
    "gpu_hours": (0.0, np.inf),
    "money": (0.0, np.inf),
}
POSITIVE = ("peak", "relative_peak", "gpu_hours", "money")


class Quantity(Strict):
    """The values that a quantity may take: some, or all in a range.

    Parameters
    ----------
    values : tuple of float
        One is a fixed value. A plain number, list or NumPy array stands for it.
    low, high : float, optional
        A range, in place of values.
    scale : {"linear", "log"}, optional
        How a range is sampled; logarithmic for learning rates and lengths unless given.

    Examples
    --------
    >>> Quantity.model_validate(0.25).values
    (0.25,)
    >>> Quantity(low=0.1, high=10.0, scale="log").at(np.array([0.0, 0.5, 1.0])).round(6).tolist()
    [0.1, 1.0, 10.0]
    """

    values: tuple[float, ...] = ()
    low: float | None = None
    high: float | None = None
    scale: Literal["linear", "log"] | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_plain(cls, given: Any) -> Any:
        given = given.tolist() if isinstance(given, np.ndarray) else given
        listed = [given] if is_number(given) else given
        if isinstance(listed, list | tuple) and listed and all(map(is_number, listed)):
            return {"values": tuple(dict.fromkeys(listed))}
        if isinstance(given, dict | cls):
            return given
        raise ValueError(f"{given!r} is not a number, list of numbers or range")

    @model_validator(mode="after")
    def _is_list_or_range(self) -> Self:
        if self.values:
            if self.low is not None or self.high is not None or self.scale is not None:
                raise ValueError("there are values and a range: keep one of the two")
        elif self.low is None or self.high is None:
            raise ValueError("a range needs both low and high")
        elif not self.low < self.high:
            raise ValueError(f"the range ends at {self.high:g}, not above its start {self.low:g}")
        elif self.scale == "log" and self.low <= 0:
            raise ValueError("a logarithmic range must start above 0")
        return self

    @property
    def is_range(self) -> bool:
        """Whether it is a range."""
        return not self.values

    @property
    def lowest(self) -> float:
        """The smallest value."""
        return min(self.values) if self.low is None else self.low

    @property
    def highest(self) -> float:
        """The largest value."""
        return max(self.values) if self.high is None else self.high

    def over(self, divisor: float, *, whole: bool) -> Self:
        """Return the quantity in units of so much, or in whole ones, as many as it has room for."""
        rounded = np.floor if whole else float
        # A budget of a whole number must not lose one to rounding.
        low, high = (end and rounded(round(end / divisor, 6)) for end in (self.low, self.high))
        values = tuple(rounded(round(value / divisor, 6)) for value in self.values)
        return self.model_copy(update={"values": values, "low": low, "high": high})

    def at(self, place: Floats) -> Floats:
        """Return the values at places 0...1 of the range."""
        low, high = self.lowest, self.highest
        if self.scale == "log":
            return np.asarray(low * (high / low) ** place)
        return np.asarray(low + (high - low) * place)


type DecayShape = Literal["linear", "cosine", "one_minus_sqrt", "exponential"]


class Space(Strict):
    """The configurations to choose from. What is left out has the default in brackets.

    Parameters
    ----------
    bases : tuple of str, optional
        Checkpoints of the study to start from [those that CPT runs start from and whose PT schedule is
        known].
    replay : Quantity, optional
        Share of general data [from the least to the most that CPT runs tried].
    targets : tuple of mapping of str to float, optional
        Mixtures to choose from, each the shares of targets in the data that are not replay; a name stands
        for that target alone [of the targets that runs train on all mixtures in steps of a quarter].
    peak, relative_peak : Quantity, optional
        Peak LR, raw or as a share of the base's PT peak [from the lowest to the highest that CPT runs
        tried].
    warmup_steps, warmup_share : Quantity, optional
        Length of the line from the base's last LR to the peak, in steps or as a share of all [0.02].
        A run that starts at its peak has none.
    decay_shape : tuple of str
        ``linear``, ``cosine``, ``one_minus_sqrt`` or ``exponential`` [cosine].
    decay_share : Quantity, optional
        Share of the steps after the re-warm-up in which the LR decays; before, it is held (WSD) [from a
        tenth, or the shortest that a run took, to all of them].
    final, relative_final : Quantity, optional
        Last LR, raw or as a share of the peak [from the lowest to the highest of CPT runs that decay; 0.1
        of the peak where none does].
    steps, tokens, gpu_hours, money : Quantity, optional
        Length of the run, or what it takes at most [the steps of the longest CPT run of the study].
    tokens_per_step : float, optional
        Of the run; a law that compares batches takes it for the batch size [that of most CPT runs].
    sequence_length : int, optional
        Of the run, in tokens, for such a law [that of most CPT runs].
    unique_tokens : UniqueTokens, optional
        How many different tokens there are; those of the study unless given.
    compute : Compute, optional
        What a step of the run costs [as in the study, in proportion to the tokens of a step].

    Examples
    --------
    >>> space = Space(replay=[0, 0.25, 0.5], relative_peak={"low": 0.1, "high": 1.0}, steps=12_000)
    >>> space.replay.values, space.relative_peak.scale
    ((0.0, 0.25, 0.5), 'log')
    """

    bases: tuple[str, ...] | None = None
    replay: Quantity | None = None
    targets: tuple[dict[str, float], ...] | None = None
    peak: Quantity | None = None
    relative_peak: Quantity | None = None
    warmup_steps: Quantity | None = None
    warmup_share: Quantity | None = None
    decay_shape: tuple[DecayShape, ...] = ("cosine",)
    decay_share: Quantity | None = None
    final: Quantity | None = None
    relative_final: Quantity | None = None
    steps: Quantity | None = None
    tokens: Quantity | None = None
    gpu_hours: Quantity | None = None
    money: Quantity | None = None
    tokens_per_step: float | None = Field(default=None, gt=0)
    sequence_length: int | None = Field(default=None, gt=0)
    unique_tokens: UniqueTokens | None = None
    compute: Compute | None = None

    @property
    def batch(self) -> Batch:
        """What is said of the batch of the run."""
        return Batch(self.tokens_per_step, self.sequence_length)

    def resources(self, study: Study) -> Resources:
        """Return what is known of steps: of the tokens that those of most CPT runs take, unless given."""
        usual = next(iter(batches_of(study)), self.batch).tokens
        known = study.resources.in_batch(self.tokens_per_step or usual)
        compute, unique = self.compute or known.compute, self.unique_tokens or known.unique_tokens
        return replace(known, compute=compute, unique_tokens=unique)

    @field_validator("bases", "decay_shape", mode="before")
    @classmethod
    def _one_is_a_list(cls, given: Any) -> Any:
        return (given,) if isinstance(given, str) else given

    @field_validator("targets", mode="before")
    @classmethod
    def _mixtures(cls, given: Any) -> Any:
        if given is None:
            return None
        listed = given if isinstance(given, list | tuple) else [given]
        return tuple(checked_mixture(mixture) for mixture in listed)

    @field_validator(*LIMITS, mode="after")
    @classmethod
    def _within_limits(cls, given: Quantity | None, info: Any) -> Quantity | None:
        if given is None:
            return None
        name = info.field_name
        low, high = LIMITS[name]
        if given.lowest < low or given.highest > high or (name in POSITIVE and given.lowest <= 0):
            upper = "" if high == np.inf else f" and at most {high:g}"
            lower = "above 0" if name in POSITIVE else f"at least {low:g}"
            percent = high == 1 and 1 < given.highest <= 100
            hint = f": write {given.highest / 100:g} for {given.highest:g} %" if percent else ""
            raise ValueError(
                f"the values are {given.lowest:g} to {given.highest:g}; "
                f"they must be {lower}{upper}{hint}"
            )
        if given.is_range and given.scale is None:
            logarithmic = name in LOGARITHMIC and given.lowest > 0
            return given.model_copy(update={"scale": "log" if logarithmic else "linear"})
        return given

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        for ways in WAYS:
            given = [name for name in ways if getattr(self, name) is not None]
            if len(given) > 1:
                raise ValueError(f"{' and '.join(given)} are given: keep one of them")
        for name in ("bases", "targets", "decay_shape"):
            if getattr(self, name) == ():
                raise ValueError(f"{name} is empty: name one, or leave the key out")
        final = self.final or self.relative_final
        if "exponential" in self.decay_shape and final is not None and final.lowest <= 0:
            raise ValueError("an exponential decay cannot end at 0: let final start above 0")
        return self


def read_space(source: "str | Path | dict[str, Any] | Space | None") -> Space:
    """Return a space from a TOML file, a table, or None for the defaults."""
    if isinstance(source, Space):
        return source
    if source is None or isinstance(source, dict):
        return checked(Space, source or {}, "space", FIX)
    return checked(Space, read_toml(Path(source), SpecError), str(source), FIX)


def narrowed(space: Space, **asked: Any) -> Space:
    """Return a space with some of its keys replaced, also by another way to say the same; None for none."""
    chosen = {name: own for name, own in asked.items() if own is not None}
    replaced = {name for ways in WAYS if chosen.keys() & set(ways) for name in ways}
    kept = {name: getattr(space, name) for name in space.model_fields_set - replaced}
    return read_space({**kept, **chosen})
