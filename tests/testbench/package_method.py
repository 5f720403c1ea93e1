"""Forecasts of the package itself, by its public interface (DESIGN.md section 4)."""

import importlib
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayes_cpt.study import Study
from bayes_cpt.validate.printed_law import Floats


def predict(
    fit_study: Study,
    plan: Study,
    points: pd.DataFrame,
    *,
    seed: int = 0,
    model: str = "cpt-replay",
) -> Floats:
    """Fit the first study by a model of the package and return draws of the plan's losses.

    Parameters and result are those of `testbench.held_out.Method`.
    """
    package: Any = importlib.import_module("bayes_cpt")
    posterior = package.fit(fit_study, model=model, seed=seed)
    forecast = posterior.predict(plan, kind="new_run", at=points)
    # The forecast is a grid of runs, domains and steps: the points are picked from it one by one.
    labels = {name: xr.DataArray(points[name].to_numpy(), dims="point") for name in points}
    chosen = forecast["loss"].sel(labels).stack(sample=("chain", "draw"))
    return np.asarray(chosen.transpose("sample", "point"))
