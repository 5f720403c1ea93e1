"""The law at the ends of many candidates in one pass over memory.

`bayes_cpt.laws` defines the law, and evaluates a block of candidates by draws in some forty passes over
arrays; 100,000 candidates in 1,000 draws take ten seconds of a core that way. Here three of its formulas
stand a second time, in a loop that Numba turns into vector instructions: the power of the forward area, the
progress of the shift, and what annealing gains. Everything else arrives in tables that the law's own terms
have filled. Tests hold the loop to the law.

Single precision throughout (`bayes_cpt.model.compiled.single`).
"""

import numba

from bayes_cpt.model.compiled.single import FASTMATH, ONE, expm1, log


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
