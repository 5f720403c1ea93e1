"""Numbers in words, with no more digits than their uncertainty supports."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from bayes_cpt.arrays import central
from bayes_cpt.arrays import chance as chance

# A probability from which a sign is stated without reservation.
SURE = 0.9
# How far the interval of a coverage may reach to either side for bands to be trusted: six runs that are
# covered alike get there.
SURE_OF_BANDS = 0.15
# Steps beyond which nobody trains.
MANY = 1e6
# Decimals of nats, at most: a single run moves by more than the last of them.
DECIMALS = 4
# Decimals of quantities of any unit, at most.
MOST_DECIMALS = 7
NONE = "-"
# Of a central 90 % interval, in standard deviations.
WIDTH = 3.3


@dataclass(frozen=True)
class Estimate:
    """A quantity with its central interval, which says how many digits are shown."""

    median: float
    lower: float
    upper: float
    probability_positive: float

    @classmethod
    def of(cls, draws: ArrayLike, interval: float) -> Self:
        """Return the estimate that draws of a quantity stand for."""
        values = np.asarray(draws, dtype=np.float64)
        ends = {name: float(end) for name, end in central(values, interval).items()}
        return cls(**ends, probability_positive=float(np.mean(values > 0)))

    @property
    def spread(self) -> float:
        """The standard deviation by which digits are shown (see `spread_of`)."""
        return spread_of(self.median, self.lower, self.upper)

    @property
    def sure(self) -> float:
        """Probability that the sign is that of the median."""
        return self.probability_positive if self.median > 0 else 1.0 - self.probability_positive

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
        """Median and interval, without plus signs."""
        ends = self.median, self.lower, self.upper
        median, lower, upper = (fixed(value, self.spread) for value in ends)
        return f"{median} ({lower} to {upper})"

    @property
    def moved(self) -> str:
        """Where a loss ends against another: how far, which way, the interval, and how sure the way is."""
        if self.sure < SURE:
            return f"about as high ({self.band} nats)"
        way = "higher" if self.median > 0 else "lower"
        return f"{self.size} nats {way} ({self.band}; {chance(self.sure)})"


def spread_of(middle: float, lower: float, upper: float) -> float:
    """Return the standard deviation of which a central 90 % interval reaches as far as the nearer end does.

    Where the nearer end is the middle itself, the further one counts.

    Examples
    --------
    >>> spread_of(0.0, -1.65, 1.65), spread_of(2.0, 0.35, 9.0), spread_of(0.0, 0.0, 3.3)
    (1.0, 1.0, 2.0)
    """
    near, far = sorted((middle - lower, upper - middle))
    return 2 * (near if near > 0 else far) / WIDTH


def decimals(spread: float) -> int:
    """Return how many decimals a number has whose standard deviation or error is given.

    As many as reach its first digit, and one more where that is 1 or 2.

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

    Examples
    --------
    >>> fixed(0.04277, 0.0115), fixed(-0.00031, 0.005)
    ('0.043', '0.000')
    """
    return typeset(f"{value:.{decimals(spread)}f}")


def typeset(text: str) -> str:
    """Return the text of a number with a minus sign in place of the hyphen, without a sign where it is 0.

    Examples
    --------
    >>> typeset("-0.25"), typeset("+0.00"), typeset("+1e-05")
    ('−0.25', '0.00', '+1e-05')
    """
    return re.sub("^-", "−", text) if float(text) else text.lstrip("+-")


def with_error(value: float, error: float) -> str:
    """Return an average over draws with its Monte Carlo error, or that it is below the last digit.

    Examples
    --------
    >>> with_error(0.0123, 0.0021), with_error(0.00071, 0.00001), with_error(0.00002, 0.00001)
    ('0.0123 ± 0.0021', '0.0007', 'under 0.0001')
    """
    text, last = fixed(value, error), fixed(error, error)
    if not float(text.replace("−", "-")):
        return f"under {10.0 ** -decimals(error):g}"
    return f"{text} ± {last}" if float(last) else text


def supported(value: float, spread: float) -> str:
    """Return a quantity of any unit with the digits that its standard deviation supports; four without one.

    Examples
    --------
    >>> supported(0.99741, 0.0019), supported(336.2, 579.0), supported(-0.1071, 0.019)
    ('0.9974', '300', '−0.107')
    """
    if not spread > 0 or not math.isfinite(spread) or _places(spread) > MOST_DECIMALS:
        return typeset(f"{value:.4g}")
    places = _places(spread)
    return typeset(f"{round(value, places):.{max(places, 0)}f}")


def signed(value: float, spread: float = 0.0) -> str:
    """Return a change with its sign, with the decimals that its standard deviation or error supports.

    Examples
    --------
    >>> signed(0.04277, 0.0115), signed(-0.3, 0.05), signed(-0.0001, 0.05)
    ('+0.043', '−0.30', '0.00')
    """
    return typeset(f"{value:+.{decimals(spread)}f}")


def number(value: float | None, digits: int = 4) -> str:
    """Return a number in so many digits, a dash where there is none.

    Examples
    --------
    >>> number(0.000213456), number(1234567), number(None)
    ('0.0002135', '1234567', '-')
    """
    if value is None or math.isnan(value):
        return NONE
    if math.isinf(value):
        return "none"
    text = f"{value:.{digits}g}"
    return typeset(f"{value:.0f}" if abs(float(text)) >= 10**digits else text)


def steps(count: float) -> str:
    """Return an inferred number of steps: two digits, as no such number is known better.

    Examples
    --------
    >>> steps(8423.4), steps(42.0), steps(3.2e8)
    ('8400', '42', 'over a million')
    """
    if count > MANY:
        return "over a million"
    return f"{float(f'{count:.2g}'):.0f}"


def held(row: Mapping[str, Any]) -> str:
    """Return the share of points in their 90 % bands with its standard error, where it has one."""
    share, error = 100 * row["coverage_90"], 100 * row["coverage_90_error"]
    return f"{share:.0f} ± {error:.0f} %" if math.isfinite(error) else f"{share:.0f} %"


def judged(row: Mapping[str, Any]) -> str:
    """Return what a coverage of 90 % bands says of them: narrow, wide, trust, or few (runs to tell).

    Examples
    --------
    >>> [judged({"runs": 9, "coverage_90": share, "coverage_90_error": 0.04}) for share in (0.7, 0.95, 1.0)]
    ['narrow', 'trust', 'trust']
    """
    from scipy.special import stdtrit

    runs, lead, error = row["runs"], row["coverage_90"] - 0.9, row["coverage_90_error"]
    # Of a central 95 % interval of a mean, in its standard errors: many for few runs.
    far = stdtrit(max(runs - 1, 1), 0.975)
    if lead < -far * error:
        return "narrow"
    # Runs that lie in bands do not tell how many others would lie wholly out of them.
    if lead > far * max(error, math.sqrt(0.09 / runs)):
        return "wide"
    return "trust" if far * error <= SURE_OF_BANDS else "few"


def left_out(seen: float) -> str:
    """Return in words what of the runs was left out: all, or what follows a share of the steps.

    Examples
    --------
    >>> left_out(0.0), left_out(0.25)
    ('whole runs', 'after 25 %')
    """
    return f"after {100 * seen:g} %" if seen else "whole runs"


def enumerated(parts: Sequence[str]) -> str:
    """Return parts as a sentence lists them.

    Examples
    --------
    >>> enumerated(["a"]), enumerated(["a", "b"]), enumerated(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    return " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))


def listed(parts: Sequence[str], most: int) -> str:
    """Return the first of some parts, and how many more there are.

    Examples
    --------
    >>> listed(["a", "b", "c"], 2), listed(["a", "b"], 2)
    ('a; b; and 1 more', 'a; b')
    """
    more = len(parts) - most
    return "; ".join(parts[:most]) + (f"; and {more} more" if more > 0 else "")
