"""Numbers in words, with no more digits than their uncertainty supports."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

# What is this probable is said without ifs.
SURE = 0.9
# Steps beyond which nobody trains.
MANY = 1e6
# Decimals of nats at the most: a single run moves by more than their last.
DECIMALS = 4
# Decimals of quantities of any unit, beyond which a number is told by its digits.
MOST_DECIMALS = 7


@dataclass(frozen=True)
class Estimate:
    """A quantity with its central interval.

    Parameters
    ----------
    median, lower, upper : float
    spread : float
        Standard deviation: it says how many digits are shown.
    probability_positive : float
    """

    median: float
    lower: float
    upper: float
    spread: float
    probability_positive: float

    @classmethod
    def of(cls, draws: ArrayLike, interval: float) -> Self:
        """Return the estimate that draws of a quantity stand for.

        Parameters
        ----------
        draws : array_like
        interval : float
            Mass of the central interval.
        """
        values = np.asarray(draws, dtype=np.float64)
        marks = np.quantile(values, [0.5, 0.5 - interval / 2, 0.5 + interval / 2])
        median, lower, upper = (float(mark) for mark in marks)
        return cls(median, lower, upper, float(values.std()), float(np.mean(values > 0)))

    @property
    def sure(self) -> float:
        """Probability that the sign is that of the median."""
        return self.probability_positive if self.median > 0 else 1.0 - self.probability_positive

    @property
    def is_told(self) -> bool:
        """Whether the sign is as good as certain."""
        return self.sure >= SURE

    @property
    def way(self) -> str:
        """Whether it is higher or lower than 0."""
        return "higher" if self.median > 0 else "lower"

    @property
    def size(self) -> str:
        """The median without its sign."""
        return fixed(abs(self.median), self.spread)

    @property
    def change(self) -> str:
        """The median with its sign."""
        return signed(self.median, self.spread)

    @property
    def band(self) -> str:
        """The interval of a change, with signs."""
        return f"{signed(self.lower, self.spread)} to {signed(self.upper, self.spread)}"

    @property
    def plain(self) -> str:
        """Median and interval, without signs where there are none."""
        median, lower, upper = (
            fixed(value, self.spread) for value in (self.median, self.lower, self.upper)
        )
        return f"{median} ({lower} to {upper})"

    @property
    def moved(self) -> str:
        """Where a loss ends against another: how far, which way, the interval, and how sure the way is."""
        if not self.is_told:
            return f"as high, as far as can be told ({self.band} nats)"
        return f"{self.size} nats {self.way} ({self.band}; {chance(self.sure)})"


def decimals(spread: float) -> int:
    """Return how many decimals a number has whose standard deviation or error is given.

    As many as reach its first digit, and one more where that is 1 or 2.

    Parameters
    ----------
    spread : float
        Standard deviation, or Monte Carlo error.

    Examples
    --------
    >>> decimals(0.012), decimals(0.05), decimals(0.0004), decimals(7.0)
    (3, 2, 4, 0)
    """
    if not spread > 0 or not math.isfinite(spread):
        return DECIMALS - 1
    return min(max(_places(spread), 0), DECIMALS)


def _places(spread: float) -> int:
    """Return the decimals that a spread supports; below 0 where it does not even support the ones."""
    place = math.floor(math.log10(spread))
    return -place + (spread / 10.0**place < 3.0)


def fixed(value: float, spread: float) -> str:
    """Return a number with the decimals that its standard deviation or error supports.

    Parameters
    ----------
    value : float
    spread : float
        Standard deviation, or Monte Carlo error.

    Examples
    --------
    >>> fixed(0.04277, 0.0115), fixed(-0.00031, 0.005)
    ('0.043', '0.000')
    """
    text = f"{value:.{decimals(spread)}f}"
    return text.removeprefix("-") if not float(text) else text.replace("-", "−")


def with_error(value: float, error: float) -> str:
    """Return an average over draws with its Monte Carlo error; what is below the last digit is said to be.

    Parameters
    ----------
    value, error : float

    Examples
    --------
    >>> with_error(0.0123, 0.0021), with_error(0.00071, 0.00001), with_error(0.00002, 0.00001)
    ('0.0123 ± 0.0021', '0.0007', 'under 0.0001')
    """
    text, last = fixed(value, error), fixed(error, error)
    if not float(text.replace("−", "-")):
        return f"under {10.0 ** -decimals(error):g}"
    return f"{text} ± {last}" if float(last) else text


def supported(value: float, spread: float, *, sign: bool = False) -> str:
    """Return a quantity of any unit with the digits that its standard deviation supports.

    Parameters
    ----------
    value : float
    spread : float
        Standard deviation. Where it is none, there are four digits; so there are where the first that it
        supports is far behind the point.
    sign : bool
        Whether a sign stands before what is above 0 too.

    Examples
    --------
    >>> supported(0.99741, 0.0019), supported(336.2, 579.0), supported(-0.1071, 0.019, sign=True)
    ('0.9974', '300', '−0.107')
    """
    plus = "+" if sign else ""
    if not spread > 0 or not math.isfinite(spread) or _places(spread) > MOST_DECIMALS:
        text = f"{value:{plus}.4g}"
    else:
        places = _places(spread)
        text = f"{round(value, places):{plus}.{max(places, 0)}f}"
    return text.replace("-", "−", 1) if text.startswith("-") else text


def signed(value: float, spread: float = 0.0) -> str:
    """Return a change with its sign, with the decimals that its standard deviation or error supports.

    Parameters
    ----------
    value : float
    spread : float
        Standard deviation, or Monte Carlo error.

    Examples
    --------
    >>> signed(0.04277, 0.0115), signed(-0.3, 0.05), signed(0.0001, 0.05)
    ('+0.043', '−0.30', '0.00')
    """
    text = fixed(value, spread)
    return text if value < 0 or not float(text) else f"+{text}"


def chance(probability: float) -> str:
    """Return a probability with as many digits as some hundred draws give it.

    Parameters
    ----------
    probability : float

    Examples
    --------
    >>> chance(0.123), chance(0.0), chance(1.0)
    ('12 %', 'under 1 %', 'over 99 %')
    """
    if probability < 0.01:
        return "under 1 %"
    return "over 99 %" if probability > 0.99 else f"{100 * probability:.0f} %"


def percent(share: float) -> str:
    """Return a share in whole percent, none below 0.

    Parameters
    ----------
    share : float

    Examples
    --------
    >>> percent(0.394), percent(-0.001)
    ('39 %', '0 %')
    """
    return f"{100 * max(share, 0.0):.0f} %"


def steps(count: float) -> str:
    """Return an inferred number of steps: two digits, as no such number is known better.

    Parameters
    ----------
    count : float

    Examples
    --------
    >>> steps(8423.4), steps(42.0), steps(3.2e8)
    ('8400', '42', 'over a million')
    """
    if count > MANY:
        return "over a million"
    rounded = round(count, 1 - math.floor(math.log10(count))) if count >= 1 else count
    return f"{rounded:.0f}"


def between(lower: str, upper: str) -> str:
    """Return a range of which both ends may be one.

    Parameters
    ----------
    lower, upper : str

    Examples
    --------
    >>> between("0.2", "0.7"), between("1", "1")
    ('between 0.2 and 0.7', 'at 1')
    """
    return f"at {lower}" if lower == upper else f"between {lower} and {upper}"


def enumerated(parts: Sequence[str]) -> str:
    """Return parts as a sentence counts them.

    Parameters
    ----------
    parts : sequence of str

    Examples
    --------
    >>> enumerated(["a"]), enumerated(["a", "b"]), enumerated(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    return " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))


def listed(parts: list[str], most: int) -> str:
    """Return the first of some parts, and how many more there are.

    Parameters
    ----------
    parts : list of str
    most : int
        How many are named.

    Examples
    --------
    >>> listed(["a", "b", "c"], 2), listed(["a", "b"], 2)
    ('a; b; and 1 more', 'a; b')
    """
    more = len(parts) - most
    return "; ".join(parts[:most]) + (f"; and {more} more" if more > 0 else "")
