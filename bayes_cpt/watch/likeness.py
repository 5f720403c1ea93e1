"""How alike the errors of the validation sets of a run are, where nobody knows.

Of a study with one target the fitted runs tell how alike the errors of its two sets are, beside other
studies (`bayes_cpt.forecast.error_correlation`). Of several targets no other study tells, and a watcher
that takes sets for more alike than they are finds them too far apart: it cries wolf. So every likeness
counts. With z what the sets of a run have in common and e_k what is a set's own, its misfit and its
fluctuation are

    a_k·z + sqrt(1 - a_k²)·e_k,

so that two sets correlate by a_j·a_k. All targets have the same a; the general set has it too, or errs by
itself, or the other way. Members of the watcher's mixture have each a likeness of its own, and the points
of the run tell which are likely. Runs on track are drawn once with independent sets, the hardest case, and
once with any likeness; what a run shows is rare only if it is rare among both.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.arrays import Floats
from bayes_cpt.model.misfit.discrepancy import ErrorCorrelation

APART, TOGETHER = ErrorCorrelation(0.0, 0.0), ErrorCorrelation(1.0, 1.0)
# Correlation of two targets, at most; short of 1, where a difference of two sets could not err at all.
MOST = 0.97
# What the general set has of the targets' likeness.
GENERAL = (-1.0, 0.0, 1.0)


@dataclass(frozen=True, eq=False)
class Likeness:
    """How alike the sets of drawn runs are.

    Parameters
    ----------
    misfit, fluctuation : ndarray, shape (count, rows)
        Root of what a set has in common with the others, -1 to 1.
    """

    misfit: Floats
    fluctuation: Floats

    @classmethod
    def none(cls, count: int, of_row: NDArray[np.int64]) -> Self:
        """Return that sets err each by itself.

        Parameters
        ----------
        count : int
        of_row : ndarray of int, shape (rows,)
            Place of each row's validation set; the general one is the first.
        """
        nothing = np.zeros((count, of_row.size))
        return cls(nothing, nothing)

    @classmethod
    def any(cls, count: int, of_row: NDArray[np.int64], generator: np.random.Generator) -> Self:
        """Draw likenesses, from none to nearly the same.

        Parameters
        ----------
        count : int
        of_row : ndarray of int, shape (rows,)
            Place of each row's validation set; the general one is the first.
        generator : numpy.random.Generator
        """
        scaled = []
        for _ in range(2):
            root = np.sqrt(generator.uniform(0.0, MOST, (count, 1)))
            general = generator.choice(GENERAL, (count, 1))
            scaled.append(root * np.where(of_row == 0, general, 1.0))
        return cls(scaled[0], scaled[1])

    def factors(self, sizes: Sequence[Floats]) -> tuple[Floats, ...]:
        """Return factors of what was drawn `APART` and `TOGETHER`, of shape (count, rows) each.

        Parameters
        ----------
        sizes : sequence of ndarray, shape (count, rows)
            Factors of misfit and fluctuation.
        """
        misfit, fluctuation = sizes
        return (
            misfit * np.sqrt(1.0 - self.misfit**2),
            fluctuation * np.sqrt(1.0 - self.fluctuation**2),
            misfit * self.misfit,
            fluctuation * self.fluctuation,
        )
