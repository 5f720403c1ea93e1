"""Final losses over two quantities of a run at once, all else as recommended."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.arrays import Floats
from bayes_cpt.errors import SpecError

if TYPE_CHECKING:
    from bayes_cpt.decisions.decision import Decision
    from bayes_cpt.decisions.search.candidates import Candidates


POINTS = 25
# Which quantities are looked at, the first that were searched.
ORDER = ("replay", "relative_peak", "peak", "steps", "relative_final", "final", "decay_share")


def has_surface(decision: "Decision") -> bool:
    """Return whether two quantities were searched over a range.

    Parameters
    ----------
    decision : Decision
    """
    return sum(name in decision.space.ranges for name in ORDER) > 1


@dataclass(frozen=True, eq=False)
class Surface:
    """Final losses on a grid of two quantities.

    Parameters
    ----------
    names : tuple of str
        The two quantities, as in `Candidates.column`.
    candidates : Candidates
        Row by row: the first quantity is constant along a row.
    losses : ndarray, shape (domains, first, second, draws)
        The law's final losses, nats/token.
    values : ndarray, shape (first, second, draws)
        Of the objective.
    """

    names: tuple[str, str]
    candidates: "Candidates"
    losses: Floats
    values: Floats

    @classmethod
    def of(
        cls, decision: "Decision", names: tuple[str, str] | None = None, points: int = POINTS
    ) -> Self:
        """Return the losses around the recommendation of a decision.

        Parameters
        ----------
        decision : Decision
        names : tuple of str, optional
            Two quantities that were searched over a range; the first two of `ORDER` unless given.
        points : int
            Along each.

        Raises
        ------
        SpecError
            If there are no two such quantities.
        """
        space = decision.space
        ranged = [name for name in ORDER if name in space.ranges]
        first, second = names or (*ranged, "", "")[:2]
        if first not in space.ranges or second not in space.ranges:
            raise SpecError.at(
                "space",
                f"a surface is over two ranges, and it has {', '.join(ranged) or 'none'}",
                "give two of replay, relative_peak, steps as { low = ..., high = ... }",
            )
        centre = decision.contenders.candidates.take(slice(0, 1))
        grid = np.linspace(0.0, 1.0, points)
        places = np.repeat(centre.places, points * points, axis=0)
        places[:, space.ranges.index(first)] = np.repeat(grid, points)
        places[:, space.ranges.index(second)] = np.tile(grid, points)
        candidates = space.build(places, np.repeat(centre.cells, points * points))
        losses = decision.valuation.model.losses(candidates)
        values = decision.valuation.values(candidates, losses)
        shape = (points, points)
        return cls(
            (first, second),
            candidates,
            losses.reshape(losses.shape[0], *shape, -1),
            values.reshape(*shape, -1),
        )

    def axis(self, index: int) -> NDArray[Any]:
        """Return the values of one of the two quantities.

        Parameters
        ----------
        index : int
            0 for the first, 1 for the second.
        """
        shape = self.values.shape[:2]
        whole = self.candidates.column(self.names[index]).reshape(shape)
        return np.asarray(whole[:, 0] if index == 0 else whole[0])
