"""Points against posterior draws: the law at every point in every draw, shape (points, draws).

The terms of `bayes_cpt.laws` are elementwise: with points of shape (points, 1) and coefficients of shape
(draws,) they give losses of shape (points, draws), and what depends on draws alone is computed once.
"""

from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.laws.law import Law
from bayes_cpt.model.points import Points

type Floats = NDArray[np.floating]


@dataclass(frozen=True, eq=False)
class Columns:
    """Points of one validation set, as the law takes them.

    Shapes are (points, 1), or (1, 1) of what all points share; of `areas` (points or 1, draws).

    Parameters
    ----------
    domain_index : int
        Which validation set.
    areas : tuple of two arrays
        S2_pt and S2_cpt in each draw, LR·steps.
    steps, cpt_steps : ndarray
        Step inside the run's phase; the same in CPT runs, 0 in PT runs.
    forward_pt, forward_cpt : ndarray
        S1_pt and S1_cpt, LR·steps.
    target_share : ndarray
        r_cpt.
    learning_rate : ndarray
        As a share of the reference learning rate.
    """

    domain_index: int
    areas: tuple[Floats, Floats]
    steps: Floats
    cpt_steps: Floats
    forward_pt: Floats
    forward_cpt: Floats
    target_share: Floats
    learning_rate: Floats

    @classmethod
    def of(cls, points: Points, rows: Any, basis: Floats) -> Self:
        """Return some points of one curve.

        Parameters
        ----------
        points : Points
        rows : index
            Of the points.
        basis : ndarray, shape (nodes, draws)
            The momentum's part of S2 (`bayes_cpt.laws.momentum.annealing_basis`).
        """
        names = {field.name for field in fields(cls)} - {"domain_index", "areas"}
        columns = {name: _column(getattr(points, name)[rows]) for name in names}
        series = (points.annealing_pt[rows], points.annealing_cpt[rows])
        before, after = (_shared(own) @ basis for own in series)
        return cls(int(points.domain_index[rows][0]), (before, after), **columns)

    def annealing_areas(self, coefficients: Any, xp: Any) -> tuple[Floats, Floats]:
        """Return S2_pt and S2_cpt in each draw."""
        return self.areas

    def losses(self, law: Law, coefficients: dict[str, Any], offset: Any) -> Floats:
        """Return the law's losses moved by what is kept of the base's offset, shape (points, draws).

        Parameters
        ----------
        law : Law
        coefficients : dict of str to ndarray, shape (draws,)
            Of this validation set, from `bayes_cpt.laws.law.gather`.
        offset : ndarray
            Of the measured base above the law's loss there, shape (draws,) or (points, draws).
        """
        loss = law.loss(self, coefficients, np)
        if law.base_offset is not None:
            loss = loss + offset * law.base_offset.kept(self, coefficients, np)
        return np.asarray(loss)


def _column(values: Floats) -> Floats:
    return _shared(values[:, None])


def _shared(values: Floats) -> Floats:
    """Return one row of rows that are all alike, else all."""
    return values[:1] if (values == values[0]).all() else values
