"""Points against posterior draws: the law at every point in every draw, shape (points, draws).

The terms of `bayes_cpt.laws` are elementwise: with points of shape (points, 1) and coefficients of shape
(draws,) they give losses of shape (points, draws), and what depends on draws alone is computed once.
"""

from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.arrays import Floats
from bayes_cpt.laws.areas import AreaForm
from bayes_cpt.laws.law import Law
from bayes_cpt.model.groups import SIZES
from bayes_cpt.model.points import Points

# What says to which groups of runs a point belongs.
MEMBERS = ("size_member", "batch_member")


@dataclass(frozen=True, eq=False)
class Bases:
    """The posterior's part of the series of the areas, shape (nodes, draws) each.

    Parameters
    ----------
    level, forward : ndarray
        From `bayes_cpt.laws.areas.AreaForm.level_basis` and `forward_basis`.
    """

    level: Floats
    forward: Floats

    @classmethod
    def of(cls, form: AreaForm, coefficients: dict[str, Any]) -> Self:
        """Return the bases of a law's coefficients, shape (draws, ...) each.

        Parameters
        ----------
        form : AreaForm
            That the series are of.
        """
        level, forward = form.level_basis(coefficients), form.forward_basis(coefficients)
        return cls(np.ascontiguousarray(level.T), np.ascontiguousarray(forward.T))

    def take(self, draws: Any) -> Self:
        """Return those of some draws."""
        level, forward = self.level[:, draws], self.forward[:, draws]
        return type(self)(np.ascontiguousarray(level), np.ascontiguousarray(forward))


@dataclass(frozen=True, eq=False)
class Columns:
    """Points of one validation set, as the law takes them.

    Shapes are (points, 1), or (1, 1) of what all points share; of `levels` and `log_area` (points or 1,
    draws).

    Parameters
    ----------
    domain_index : int
        Which validation set.
    levels : tuple of two arrays
        Levels of the learning rate in PT and in CPT in each draw, raw LR.
    log_area : ndarray
        Log of S1_pt + S1_cpt in each draw.
    steps, cpt_steps, paced_steps : ndarray
        Step inside the run's phase; the same in CPT runs, 0 in PT runs; and by the memory's clock.
    forward_cpt : ndarray
        S1_cpt as the shift sees it, LR·steps.
    start_pt, start_cpt : ndarray
        Learning rates that S2_pt and S2_cpt count from, raw LR.
    log_peak_pt : ndarray
        Log of the highest learning rate of PT so far, as a share of the reference one.
    target_share : ndarray
        r_cpt.
    other_share : ndarray
        The part of r_cpt that is data of other targets.
    mixture : ndarray, shape (points or 1, domains)
        As in `Points`.
    log_size : ndarray
        Log of the model size over the reference size; 0 where the law has no size.
    learning_rate : ndarray
        As a share of the reference learning rate.
    size_member, batch_member : ndarray of int, shape (points,) or (1,)
        As in `Points`; no batch is needed where the law does not compare them.
    branched : ndarray, optional
        As in `Points`; 0 in CPT.
    """

    domain_index: int
    levels: tuple[Floats, Floats]
    log_area: Floats
    steps: Floats
    cpt_steps: Floats
    paced_steps: Floats
    forward_cpt: Floats
    start_pt: Floats
    start_cpt: Floats
    log_peak_pt: Floats
    target_share: Floats
    other_share: Floats
    mixture: Floats
    log_size: Floats
    learning_rate: Floats
    size_member: NDArray[np.int64]
    batch_member: NDArray[np.int64] | None = None
    branched: Any = 0.0

    @classmethod
    def of(cls, fixed: "FixedColumns", bases: Bases) -> Self:
        """Return some points of one curve in some draws.

        Parameters
        ----------
        bases : Bases
            For the form of the points.
        """
        before, after = (
            fixed.form.levels_in_draws(table, bases.level)
            for table in (fixed.level_pt, fixed.level_cpt)
        )
        return cls(
            levels=(before, after), log_area=fixed.log_forward @ bases.forward, **fixed.columns
        )

    def learning_rate_levels(self, coefficients: Any, xp: Any) -> tuple[Floats, Floats]:
        """Return the levels of PT and CPT in each draw.

        Parameters
        ----------
        coefficients, xp
            Not used: the draws are those that the columns were made for.
        """
        return self.levels

    def log_forward_area(self, coefficients: Any, xp: Any) -> Floats:
        """Return the log of S1 in each draw.

        Parameters
        ----------
        coefficients, xp
            Not used: the draws are those that the columns were made for.
        """
        return self.log_area

    def of_group(self, dims: str, values: Any) -> Floats:
        """Return values along the coordinate of groups, (draws, members), of each point's, (points, draws).

        Parameters
        ----------
        dims : str
            One of `bayes_cpt.model.groups.GROUPED`.
        """
        return np.asarray(values.T[self.size_member if dims == SIZES else self.batch_member])

    def of_mixture(self, values: Any) -> Floats:
        """Return the mean of values, (draws, domains), by the shares of `mixture`, (points, draws)."""
        return np.asarray(self.mixture @ values.T)

    def losses(self, law: Law, coefficients: dict[str, Any], offset: Any) -> Floats:
        """Return the law's losses moved by what is kept of the offset of its start, shape (points, draws).

        Parameters
        ----------
        law : Law
        coefficients : dict of str to ndarray, shape (draws,)
            Of this validation set, from `bayes_cpt.laws.law.gather`.
        offset : ndarray
            Of the measured start above the law's loss there, shape (draws,) or (points, draws).
        """
        kept = law.kept(self, coefficients, np)
        return np.asarray(law.loss(self, coefficients, np) + offset * kept)


class FixedColumns(NamedTuple):
    """What of some points of one curve is the same in all draws.

    Parameters
    ----------
    columns : dict
        That of `Columns`, by name.
    form : AreaForm
    level_pt, level_cpt, log_forward : ndarray, shape (points or 1, nodes)
        As in `Points`.
    """

    columns: dict[str, Any]
    form: AreaForm
    level_pt: Floats
    level_cpt: Floats
    log_forward: Floats

    @classmethod
    def of(cls, points: Points, rows: Any) -> Self:
        """Return some points of one curve.

        Parameters
        ----------
        rows : index
            Of the points.
        """
        columns: dict[str, Any] = {
            name: _column(getattr(points, name)[rows]) for name in VALUES - set(MEMBERS)
        }
        columns |= {name: getattr(points, name)[rows][:1] for name in MEMBERS}
        columns["domain_index"] = int(points.domain_index[rows][0])
        columns["mixture"] = shared(points.mixture[rows])
        tables = (points.level_pt, points.level_cpt, points.log_forward)
        return cls(columns, points.form, *(shared(table[rows]) for table in tables))


# What of `Columns` is a number for each point.
VALUES = {field.name for field in fields(Columns)} - {
    "domain_index",
    "levels",
    "log_area",
    "mixture",
}


def _column(values: Floats) -> Floats:
    return shared(values[:, None])


def shared[T: np.generic](values: NDArray[T]) -> NDArray[T]:
    """Return one row of rows that are all alike, else all.

    Parameters
    ----------
    values : ndarray, shape (rows, ...)
    """
    return values[:1] if (values == values[0]).all() else values
