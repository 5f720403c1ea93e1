"""What a loss curve is made of: the shares of the law's terms, step by step."""

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.forecast.predict import planned_curves
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.laws import Annealing
from bayes_cpt.laws.law import gather
from bayes_cpt.model.points import Curves
from bayes_cpt.study.study import Study

if TYPE_CHECKING:
    import xarray as xr

type Floats = NDArray[np.float64]


def decompose(
    posterior: Posterior,
    plan: "Study | str | Path | None" = None,
    runs: Collection[str] | None = None,
    draws: int = 500,
) -> "xr.Dataset":
    """Return the parts that the law's curve of each run is the sum of.

    Parameters
    ----------
    posterior : Posterior
    plan : Study or path, optional
        As in `bayes_cpt.forecast.predict.predict`: None takes the study's own runs.
    runs : collection of str, optional
        Names of the runs wanted; all unless given.
    draws : int
        Posterior draws to use, spread evenly over the chains.

    Returns
    -------
    xarray.Dataset
        One variable per part, dims draw, run, domain, step, nats/token; NaN at steps that a run has not.
        Terms of the law have their own names, but annealing is split into what PT did
        (``annealing_pt``) and what CPT adds (``annealing_cpt``). ``base_offset`` is what is kept of the
        distance of the measured base from the law. ``attrs["parts"]`` lists the parts; they add up to
        ``expected``.

    Raises
    ------
    PlanError, StudyError
        Naming what cannot be decomposed.
    """
    target, curves = planned_curves(posterior, plan, runs=runs)
    law, points = posterior.frame.law, curves.points
    coefficients = law.coefficients(posterior.parameters(draws), np)
    gathered = gather(points, coefficients)
    parts = {}
    for term in law.terms:
        if isinstance(term, Annealing):
            parts["annealing_pt"], parts["annealing_cpt"] = term.shares(points, gathered, np)
        else:
            parts[term.name] = term.loss(points, gathered, np)
    parts["base_offset"] = law.offset_loss(points, curves.bases, coefficients, np)
    expected = law.curve_loss(points, curves.bases, coefficients, np)

    parted = curve_dataset(posterior, target, curves, {**parts, "expected": expected})
    return parted.assign_attrs(parts=list(parts))


def curve_dataset(
    posterior: Posterior, target: Study, curves: Curves, values: dict[str, Floats]
) -> "xr.Dataset":
    """Return draws at the points of curves as a dataset.

    Parameters
    ----------
    posterior : Posterior
    target : Study
        The plan that the curves are of.
    curves : Curves
    values : dict of str to ndarray, shape (draws, points)
        nats/token; what is 0 in every draw may be of shape (points,).

    Returns
    -------
    xarray.Dataset
        Dims draw, run, domain, step; NaN at steps that a run has not.
    """
    import xarray as xr

    points = curves.points
    draws = max(loss.shape[0] for loss in values.values() if loss.ndim == 2)
    names = list(dict.fromkeys(curve.run for curve in curves.curves))
    domains = list(posterior.frame.domains)
    steps = np.unique(points.steps).astype(np.int64)
    curve_runs = np.array([names.index(curve.run) for curve in curves.curves])
    place = (
        curve_runs[points.curve_index],
        points.domain_index,
        np.searchsorted(steps, points.steps),
    )
    variables = {}
    for name, loss in values.items():
        filled = np.full((draws, len(names), len(domains), steps.size), np.nan)
        filled[:, *place] = loss
        variables[name] = (("draw", "run", "domain", "step"), filled, {"units": "nats/token"})
    return xr.Dataset(
        variables,
        coords={
            "draw": np.arange(draws),
            "run": names,
            "domain": domains,
            "step": steps,
        },
        attrs={
            "study": posterior.study.name,
            "model": posterior.frame.spec.name,
            "plan": target.name,
        },
    )
