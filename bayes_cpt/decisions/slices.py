"""What it costs to leave the recommendation in one quantity."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.arrays import Floats
from bayes_cpt.decisions.search.candidates import Candidates
from bayes_cpt.decisions.search.search_space import SearchSpace
from bayes_cpt.decisions.valuation import Valuation

POINTS = 41
# What the same configuration may differ by where it is computed beside others, nats.
ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Slice:
    """Candidates that differ from the recommendation in one quantity.

    Parameters
    ----------
    name : str
        Of the quantity, as in `Candidates.column`.
    candidates : Candidates
    costs : ndarray, shape (candidates, draws)
        Value of the objective above that of the recommendation.
    allowed : ndarray of bool, shape (candidates,)
        Whether each keeps all constraints.
    """

    name: str
    candidates: Candidates
    costs: Floats
    allowed: NDArray[np.bool_]

    @classmethod
    def of(cls, valuation: Valuation, space: SearchSpace, chosen: Candidates, name: str) -> Self:
        """Return a slice through a single chosen candidate.

        Parameters
        ----------
        valuation : Valuation
        space : SearchSpace
        chosen : Candidates
            A single one.
        name : str
            Of the quantity that varies along the slice.
        """
        candidates = space.along(chosen, name, POINTS)
        layout = valuation.model.layout(candidates.joined(chosen))
        rows = np.arange(len(candidates) + 1)
        losses, spread = layout.losses(rows), layout.spread(rows)
        law = valuation.changes(layout.candidates, losses)
        values = valuation.moved(layout.candidates, law, layout.missed(rows))
        breaches = valuation.breaches(layout.candidates, losses, spread)
        allowed = (breaches <= valuation.allowed[:, None]).all(axis=0)
        allowed &= valuation.overrun(layout.candidates) <= 0.0
        return cls(name, candidates, values[:-1] - values[-1], allowed[:-1])

    @property
    def values(self) -> NDArray[Any]:
        """The quantity of each candidate."""
        return self.candidates.column(self.name)

    def within(self, tolerance: float) -> NDArray[Any]:
        """Return the values that are allowed and cost no more than a tolerance on average.

        Parameters
        ----------
        tolerance : float
            Nats of the objective above the best value.
        """
        cheap = (self.costs.mean(axis=1) <= tolerance + ROUNDING) & self.allowed
        return np.asarray(self.values[cheap])
