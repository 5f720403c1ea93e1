"""Draws of losses at points of curves, beside the table that says where these are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
import pandas as pd

from bayes_cpt.arrays import Floats, summary
from bayes_cpt.model.points import Curves

if TYPE_CHECKING:
    import xarray as xr


def point_table(curves: Curves) -> pd.DataFrame:
    """Return run, step and domain of every point of some curves."""
    runs = np.array([curve.run for curve in curves.curves], dtype=object)
    domains = np.array([curve.domain for curve in curves.curves], dtype=object)
    index, steps = curves.points.curve_index, curves.points.steps.astype(np.int64)
    return pd.DataFrame({"run": runs[index], "step": steps, "domain": domains[index]})


def gridded(
    points: pd.DataFrame, domains: Sequence[str], values: Mapping[str, Floats]
) -> "xr.Dataset":
    """Return losses at points (see `point_table`), shape (draws, points) each, by run, domain and step.

    NaN at steps that a run has not.
    """
    import xarray as xr

    run_place, runs = pd.factorize(points["run"])
    steps, step_place = np.unique(points["step"], return_inverse=True)
    place = (run_place, pd.Index(domains).get_indexer(points["domain"]), step_place)
    variables = {}
    for name, own in values.items():
        grid = np.full((len(own), len(runs), len(domains), steps.size), np.nan)
        grid[:, *place] = own
        variables[name] = (("draw", "run", "domain", "step"), grid, {"units": "nats/token"})
    coords = {"run": list(runs), "domain": list(domains), "step": steps}
    return xr.Dataset(variables, coords={"draw": np.arange(len(grid)), **coords})


@dataclass(frozen=True, eq=False)
class Drawn:
    """Draws at points."""

    points: pd.DataFrame  # columns run, step and domain
    # As in `bayes_cpt.model.simulate.CurveDraws`, of shape (draws, points)
    expected: Floats
    loss: Floats

    @classmethod
    def joined(cls, parts: Sequence[Self], axis: int) -> Self:
        """Return the draws of several laws at the same points (axis 0), or of points after another (1)."""
        expected = np.concatenate([part.expected for part in parts], axis)
        loss = np.concatenate([part.loss for part in parts], axis)
        points = [part.points for part in parts]
        return cls(pd.concat(points, ignore_index=True) if axis else points[0], expected, loss)

    def bands(self, interval: float) -> pd.DataFrame:
        """Return the points with a `summary` of each."""
        return self.points.assign(**summary(self.loss.T, interval))
