"""Exponentials and logarithms of whole arrays, in loops that become vector instructions.

A loop that calls the exponential of the C library takes one number at a time; for several Numba needs
Intel's SVML, a library beside it. These take less than half of the time, as NumPy's do, to within two units
in the last place.
"""

import math
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from bayes_cpt.jit import numba

# Products may be added without being rounded, and nothing be reordered: what is rounded off is meant to be.
EXACT: dict[str, Any] = {"cache": True, "error_model": "numpy", "fastmath": {"contract"}}
# ln 2 in two parts: a whole number below 2^11 times the first is exact.
LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
PER_LN2 = 1.0 / math.log(2.0)
# Added to a number below 2^51 it leaves the nearest whole number in the last bits.
ROUNDING = 1.5 * 2.0**52
# Beyond these the exponential is no double, or less than the smallest of full precision: then it is 0.
HIGHEST, LOWEST = 709.782712893384, -708.3964185322641
MANTISSA = 52
ONE, MANTISSA_BITS = 0x3FF0000000000000, 0x000FFFFFFFFFFFFF
SMALLEST_NORMAL, LARGEST = 2.0**-1022, 1.7976931348623157e308
# Taylor's series of (exp(r) - 1 - r)/r^2 for r up to ln(2)/2, and that of (atanh(s) - s)/s^3 in s^2 for s
# up to 3 - 2 sqrt(2), from the last term to the first.
E13, E12, E11, E10, E9, E8, E7, E6, E5, E4, E3, E2 = (
    1.0 / math.factorial(k) for k in range(13, 1, -1)
)
A21, A19, A17, A15, A13, A11, A9, A7, A5, A3 = (1.0 / k for k in range(21, 1, -2))


@intrinsic
def bits_of(typing_context, number):  # type: ignore[no-untyped-def]
    """Return the bits of a number as an integer, from compiled code.

    Parameters
    ----------
    typing_context : object
        Numba's own; not given where it is called.
    number : float
    """

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.bitcast(values[0], ir.IntType(64))

    return types.int64(types.float64), generate


@intrinsic
def number_of(typing_context, bits):  # type: ignore[no-untyped-def]
    """Return the number that has these bits, from compiled code.

    Parameters
    ----------
    typing_context : object
        Numba's own; not given where it is called.
    bits : int
    """

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.bitcast(values[0], ir.DoubleType())

    return types.float64(types.int64), generate


@numba.njit(**EXACT)
def exponentials(numbers):  # type: ignore[no-untyped-def]
    """Turn each number into its exponential, in place.

    With ``n`` the whole number nearest to ``x/ln 2``, ``exp(x) = 2^n·exp(x - n·ln 2)``. Below about 1e-308
    it is 0.

    Parameters
    ----------
    numbers : ndarray, shape (n,)
        One after the other in memory.
    """
    for i in range(numbers.shape[0]):
        given = numbers[i]
        number = HIGHEST if given > HIGHEST else given
        number = LOWEST if number < LOWEST else number
        rounded = number * PER_LN2 + ROUNDING
        whole = rounded - ROUNDING
        rest = (number - whole * LN2_HIGH) - whole * LN2_LOW
        series = E13
        series = series * rest + E12
        series = series * rest + E11
        series = series * rest + E10
        series = series * rest + E9
        series = series * rest + E8
        series = series * rest + E7
        series = series * rest + E6
        series = series * rest + E5
        series = series * rest + E4
        series = series * rest + E3
        series = series * rest + E2
        # 2^n in two factors, as 2^1024 is no double; each exponent in the last bits of a rounded number.
        half = 0.5 * whole + ROUNDING
        other = (whole - (half - ROUNDING)) + ROUNDING
        found = 1.0 + (rest + rest * rest * series)
        found *= number_of((bits_of(half) << MANTISSA) + ONE)  # type: ignore[call-arg]
        found *= number_of((bits_of(other) << MANTISSA) + ONE)
        found = math.inf if given > HIGHEST else found
        numbers[i] = 0.0 if given < LOWEST else found


@numba.njit(**EXACT)
def _logarithm(number):  # type: ignore[no-untyped-def]
    """Return the logarithm of a number: ``k·ln 2 + 2 atanh((m - 1)/(m + 1))`` of ``m·2^k``."""
    small = number < SMALLEST_NORMAL
    bits: Any = bits_of(number * 2.0**54 if small else number)  # type: ignore[call-arg]
    mantissa = number_of((bits & MANTISSA_BITS) | ONE)
    large = mantissa > math.sqrt(2.0)
    mantissa = 0.5 * mantissa if large else mantissa
    power = float((bits >> MANTISSA) - (1022 if large else 1023)) - (54.0 if small else 0.0)
    less = mantissa - 1.0
    ratio = less / (mantissa + 1.0)
    square = ratio * ratio
    series = A21
    series = series * square + A19
    series = series * square + A17
    series = series * square + A15
    series = series * square + A13
    series = series * square + A11
    series = series * square + A9
    series = series * square + A7
    series = series * square + A5
    series = series * square + A3
    # 2·ratio = less - ratio·less, whose rounding is that of a small number.
    found = power * LN2_HIGH + (less - (ratio * (less - 2.0 * square * series) - power * LN2_LOW))
    found = math.nan if number < 0.0 else found
    found = -math.inf if number == 0.0 else found
    return found if number <= LARGEST else number


@numba.njit(**EXACT)
def logarithms(numbers):  # type: ignore[no-untyped-def]
    """Turn each number into its natural logarithm, in place.

    Parameters
    ----------
    numbers : ndarray, shape (n,)
        One after the other in memory.
    """
    for i in range(numbers.shape[0]):
        numbers[i] = _logarithm(numbers[i])


@numba.njit(**EXACT)
def logarithms_of_one_more(numbers):  # type: ignore[no-untyped-def]
    """Turn each number x into log(1 + x), to full precision where x is small, in place.

    Parameters
    ----------
    numbers : ndarray, shape (n,)
        One after the other in memory.
    """
    for i in range(numbers.shape[0]):
        number = numbers[i]
        more = 1.0 + number
        lost = number - (more - 1.0)
        found = _logarithm(more)
        numbers[i] = found + lost / more if 0.0 < more <= LARGEST else found
