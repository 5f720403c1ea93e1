"""What every reader of logs gives: each number with its step, its name and its place in the log."""

import math
from dataclasses import dataclass, field

from bayes_cpt.errors import StudyError

# Facts that a log may tell beside its numbers, as `RawLog.facts` names them.
TOTAL_STEPS, WARMUP_STEPS, SEQUENCES_PER_STEP = "total_steps", "warmup_steps", "sequences_per_step"


class LogError(StudyError):
    """A log that cannot be used, with all its problems at once."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One number of a log.

    Parameters
    ----------
    step : float
        As the log counts: steps, tokens or samples.
    series : str
        What the log calls the number.
    value : float
        May be NaN or infinite: training diverges.
    place : str
        File and line or entry.
    """

    step: float
    series: str
    value: float
    place: str


@dataclass
class RawLog:
    """A log as it was found, before anything is chosen, converted or left out.

    Parameters
    ----------
    source : str
        Path or address.
    entries : list of Entry
        In the order of the log: a restart is seen by steps that fall.
    facts : dict of str to float
        What else the log says: `TOTAL_STEPS` and the like.
    notes : list of str
        What was assumed or left out while reading.
    counts : str
        What its own names say that it counts: steps, tokens or samples.
    """

    source: str
    entries: list[Entry] = field(default_factory=list)
    facts: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    counts: str = "steps"

    def series(self) -> list[str]:
        """Return the names of its series, in order of appearance."""
        return list(dict.fromkeys(entry.series for entry in self.entries))

    def add(self, step: float, series: str, value: float, place: str) -> None:
        """Note one number.

        Parameters
        ----------
        step : float
            As the log counts.
        series : str
            What the log calls it.
        value : float
        place : str
            Where it stands: file and line.
        """
        self.entries.append(Entry(float(step), series, float(value), place))

    def extend(self, other: "RawLog") -> None:
        """Add what another log of the same run holds.

        Parameters
        ----------
        other : RawLog
            Written later.
        """
        self.entries += other.entries
        self.facts |= other.facts
        self.notes += [note for note in other.notes if note not in self.notes]


def fail(place: str, problem: str, fix: str) -> LogError:
    """Return the error of one problem.

    Parameters
    ----------
    place : str
        File, and line if there are any.
    problem, fix : str
        In words.
    """
    return LogError.at(place, problem, fix)


def as_number(value: object) -> float | None:
    """Return a cell or JSON value as a number, None where it is none.

    Parameters
    ----------
    value : object
        Of a log.

    Examples
    --------
    >>> as_number("2e-4"), as_number(True), as_number("n/a"), as_number(3)
    (0.0002, None, None, 3.0)
    """
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        # A whole number may be too large for any float.
        return float(value) if not isinstance(value, int) or abs(value) < 1e300 else math.inf
    if not isinstance(value, str):
        return float(value) if hasattr(value, "__float__") else None
    try:
        return float(value)
    except ValueError:
        return None
