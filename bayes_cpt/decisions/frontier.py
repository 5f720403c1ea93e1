"""The trade between general and target loss: which configurations no other beats on both.

Of several targets it is their mean that is traded.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from bayes_cpt.arrays import Floats, Ints
from bayes_cpt.decisions.search.candidates import Candidates
from bayes_cpt.decisions.search.search import Search, nondominated, traded
from bayes_cpt.decisions.valuation import Valuation

POINTS = 40


@dataclass(frozen=True, eq=False)
class Front:
    """The Pareto front of expected losses.

    Parameters
    ----------
    candidates : Candidates
        From the lowest general loss to the lowest target loss.
    losses : ndarray, shape (domains, candidates, draws)
        Expected losses, nats/token: the law's, and what it misses.
    starts : ndarray, shape (domains, candidates or 1, draws)
        What changes are counted from.
    """

    candidates: Candidates
    losses: Floats
    starts: Floats

    @classmethod
    def of(cls, valuation: Valuation, search: Search) -> Self:
        """Return about forty points of the front of what was searched, evenly spread along it.

        Parameters
        ----------
        valuation : Valuation
        search : Search
        """
        keep = search.feasible if search.feasible.any() else np.ones(len(search.means), bool)
        allowed = np.flatnonzero(keep)
        losses = traded(search.losses)
        rows = allowed[nondominated(*losses[:, allowed])]
        chosen = search.candidates.take(rows[_spread(losses[:, rows])])
        starts = valuation.start(chosen) + valuation.start_missed(chosen)
        return cls(chosen, valuation.model.expected(chosen), starts)


def _spread(losses: Floats) -> Ints:
    """Return some points of a front, evenly along it."""
    spans = np.ptp(losses, axis=1)
    pieces = np.diff(losses, axis=1) / np.where(spans > 0, spans, 1.0)[:, None]
    length = np.r_[0.0, np.cumsum(np.hypot(*pieces))]
    wanted = np.linspace(0.0, length[-1], min(POINTS, length.size))
    return np.unique(np.abs(length[:, None] - wanted).argmin(axis=0))
