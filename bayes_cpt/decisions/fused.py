"""The law at the ends of many candidates in one pass over memory.

`bayes_cpt.laws` defines the law, and evaluates a block of candidates by draws in some forty passes over
arrays; 100,000 candidates in 1,000 draws take ten seconds of a core that way. Here three of its formulas
stand a second time, in a loop that Numba turns into vector instructions: the power of the forward area, the
progress of the shift, and what annealing gains. Everything else arrives in tables that the law's own terms
have filled. Tests hold the loop to the law.

Single precision throughout. `expm1` and `log` are polynomials (Cephes, Moshier 1992), for without a vector
library a call of the C library keeps a loop from being vectorised; both are exact to about 1e-7.
"""

import numba
import numpy as np

# What the compiler may assume: no NaN, no infinity, and that a product and a sum may be fused.
FASTMATH = {"contract", "nsz", "nnan", "ninf"}

single = np.float32
ONE, HALF = single(1.0), single(0.5)
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
def expm1(x):  # type: ignore[no-untyped-def]
    """Return exp(x) - 1 of a number up to 80, without losing digits near 0."""
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


@numba.njit(cache=True, nogil=True, fastmath=FASTMATH, error_model="numpy")
def fill_losses(  # type: ignore[no-untyped-def]
    losses, log_forward, forward_cpt, share, area, replay, steps, base,
    level, excess, alpha, beta, limit, rate, gain, transient, kept, offset, start,
):  # fmt: skip
    """Fill in the losses of some candidates on one validation set, shape (candidates, draws).

    Parameters
    ----------
    losses : ndarray, shape (candidates, draws)
    log_forward : ndarray, shape (candidates,)
        log of S1 over a reference forward area.
    forward_cpt, share : ndarray, shape (candidates,)
        S1_cpt and r_cpt.
    area : ndarray, shape (candidates, draws)
        S2_cpt.
    replay, steps, base : ndarray of int, shape (candidates,)
        Rows of the tables.
    level, excess, alpha, beta : ndarray, shape (draws,)
        The power's loss at the reference and what it exceeds its limit by there; exponents.
    limit, rate, gain : ndarray, shape (replays, draws)
        Limit and rate of the shift; annealing gain.
    transient, kept : ndarray, shape (lengths, draws)
        Loss of terms in steps per target share; share of the base's offset that is left.
    offset, start : ndarray, shape (bases, draws)
        Measured loss of the base above the law's; loss that its own annealing has taken off.
    """
    draws = losses.shape[1]
    # One short loop per term: with more arrays in it the compiler no longer sees that none overlap.
    for c in range(losses.shape[0]):
        loss, own_area = losses[c], area[c]
        x, forward, target = log_forward[c], forward_cpt[c], share[c]
        own_limit, own_rate, own_gain = limit[replay[c]], rate[replay[c]], gain[replay[c]]
        own_transient, own_kept = transient[steps[c]], kept[steps[c]]
        own_offset, own_start = offset[base[c]], start[base[c]]
        for d in range(draws):
            loss[d] = level[d] + excess[d] * expm1(-alpha[d] * x)
        for d in range(draws):
            loss[d] -= own_limit[d] * expm1(-beta[d] * log(ONE + own_rate[d] * forward))
        for d in range(draws):
            loss[d] -= own_gain[d] * own_area[d]
        for d in range(draws):
            loss[d] += target * own_transient[d] + own_kept[d] * own_offset[d] + own_start[d]
