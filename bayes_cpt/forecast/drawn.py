"""Draws of losses at points of curves, beside the table that says where these are."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.model.points import Curves
from bayes_cpt.model.simulate import CurveDraws

if TYPE_CHECKING:
    import pandas as pd

# Of bands, those that hold losses.
COLUMNS = ("mean", "median", "sd", "lower", "upper")


def point_table(curves: Curves) -> "pd.DataFrame":
    """Return run, step and domain of every point of some curves."""
    import pandas as pd

    runs, domains = (
        np.array([getattr(curve, name) for curve in curves.curves], dtype=object)
        for name in ("run", "domain")
    )
    index, steps = curves.points.curve_index, curves.points.steps.astype(np.int64)
    return pd.DataFrame({"run": runs[index], "step": steps, "domain": domains[index]})


def summary(draws: Floats, interval: float) -> dict[str, Floats]:
    """Return `COLUMNS` of draws, shape (draws, points)."""
    marks = [0.5, 0.5 - interval / 2, 0.5 + interval / 2]
    median, lower, upper = np.quantile(draws, marks, axis=0)
    values = (draws.mean(axis=0), median, draws.std(axis=0, ddof=1), lower, upper)
    return dict(zip(COLUMNS, values, strict=True))


@dataclass(frozen=True, eq=False)
class Drawn:
    """Draws at points.

    Parameters
    ----------
    points : DataFrame
        Columns run, step and domain.
    expected, loss : ndarray, shape (draws, points)
        As in `bayes_cpt.model.simulate.CurveDraws`.
    """

    points: "pd.DataFrame"
    expected: Floats
    loss: Floats

    @classmethod
    def of_law(cls, curves: Curves, drawn: CurveDraws) -> Self:
        """Return draws of the law's losses."""
        return cls(point_table(curves), drawn.expected, drawn.loss)

    @classmethod
    def over_laws(cls, parts: Sequence[Self]) -> Self:
        """Return the draws of several laws at the same points."""
        expected, loss = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("expected", "loss")
        )
        return cls(parts[0].points, expected, loss)

    @classmethod
    def beside(cls, parts: Sequence[Self]) -> Self:
        """Return points one after the other, in the same draws."""
        import pandas as pd

        expected, loss = (
            np.concatenate([getattr(part, name) for part in parts], axis=1)
            for name in ("expected", "loss")
        )
        points = pd.concat([part.points for part in parts], ignore_index=True)
        return cls(points, expected, loss)

    def bands(self, interval: float) -> "pd.DataFrame":
        """Return the points with their `COLUMNS`."""
        return self.points.assign(**summary(self.loss, interval))
