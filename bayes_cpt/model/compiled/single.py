"""Exponential and logarithm in single precision, as polynomials that Numba turns into vector instructions.

Without a vector library a call of the C library keeps a loop from being vectorised. The polynomials are
those of Cephes (Moshier 1992), exact to about 1e-7.
"""

import numba
import numpy as np

# What the compiler may assume: no NaN, no infinity, and that a product and a sum may be fused.
FASTMATH = {"contract", "nsz", "nnan", "ninf"}

single = np.float32
ZERO, ONE, HALF = single(0.0), single(1.0), single(0.5)
LOG2_E = single(1.44269504)
# log 2 in two parts, the first of which is exact in few digits.
LOG_2_HIGH, LOG_2_LOW = single(0.693359375), single(-2.12194440e-4)
SMALLEST_EXPONENT = single(-87.0)
# Bits of sqrt(1/2), and of a number between 1 and 2.
ROOT_BITS, MANTISSA = np.int32(0x3F3504F3), np.int32(0x007FFFFF)
BIAS, DIGITS = np.int32(127), np.int32(23)
EXP = tuple(
    single(c)
    for c in (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1,
              5.0000001201e-1)
)  # fmt: skip
LOG = tuple(
    single(c)
    for c in (7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
              -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1)
)  # fmt: skip


@numba.njit(inline="always", fastmath=FASTMATH)
def _parts(x):  # type: ignore[no-untyped-def]
    """Return 2^n, and exp(r) - 1 of the rest r of x = n·log 2 + r."""
    x = max(x, SMALLEST_EXPONENT)
    whole = np.floor(x * LOG2_E + HALF)
    rest = x - whole * LOG_2_HIGH
    rest = rest - whole * LOG_2_LOW
    series = EXP[0]
    series = series * rest + EXP[1]
    series = series * rest + EXP[2]
    series = series * rest + EXP[3]
    series = series * rest + EXP[4]
    series = series * rest + EXP[5]
    series = series * rest * rest + rest
    power = np.int32((np.int32(whole) + BIAS) << DIGITS).view(np.float32)
    return power, series


@numba.njit(inline="always", fastmath=FASTMATH)
def exp(x):  # type: ignore[no-untyped-def]
    """Return exp(x) of a number up to 80."""
    power, series = _parts(x)
    return power * series + power


@numba.njit(inline="always", fastmath=FASTMATH)
def expm1(x):  # type: ignore[no-untyped-def]
    """Return exp(x) - 1 of a number up to 80, without losing digits near 0."""
    power, series = _parts(x)
    return power * series + (power - ONE)


@numba.njit(inline="always", fastmath=FASTMATH)
def log(x):  # type: ignore[no-untyped-def]
    """Return log(x) of a positive normal number."""
    bits = np.int32(single(x).view(np.int32) - ROOT_BITS)
    exponent = single(bits >> DIGITS)
    rest = np.int32((bits & MANTISSA) + ROOT_BITS).view(np.float32) - ONE
    square = rest * rest
    series = LOG[0]
    series = series * rest + LOG[1]
    series = series * rest + LOG[2]
    series = series * rest + LOG[3]
    series = series * rest + LOG[4]
    series = series * rest + LOG[5]
    series = series * rest + LOG[6]
    series = series * rest + LOG[7]
    series = series * rest + LOG[8]
    tail = rest * square * series + LOG_2_LOW * exponent - HALF * square
    return rest + tail + LOG_2_HIGH * exponent


@numba.njit(inline="always", fastmath=FASTMATH)
def log1p(x):  # type: ignore[no-untyped-def]
    """Return log(1 + x) of a number above -1, to about 1e-7 absolutely."""
    return log(ONE + x)


@numba.njit(inline="always", fastmath=FASTMATH)
def sqrt(x):  # type: ignore[no-untyped-def]
    """Return the square root of a number, 0 where rounding has made it negative."""
    return np.sqrt(max(x, ZERO))
