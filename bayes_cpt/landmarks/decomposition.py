"""What a loss curve is made of: the law's terms, and the hidden curves that it moves between."""

from collections.abc import Callable, Collection, Mapping

import numpy as np
import xarray as xr

from bayes_cpt.arrays import Floats
from bayes_cpt.forecast.drawn import gridded, point_table
from bayes_cpt.forecast.plans import Plan, prepare
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.laws import Annealing
from bayes_cpt.laws.law import Law, gather
from bayes_cpt.model.points import Curves, Points

DRAWS = 500
# Steps are finite, so that a law can divide them by data without end.
ENDLESS = {"log_shift": np.inf, "cpt_steps": 1e300}
# Terms that a run on general data has too.
PRETRAINING_TERMS = ("power", "annealing", "peak", "size")


def decompose(
    posterior: Posterior, plan: Plan = None, runs: Collection[str] | None = None, draws: int = DRAWS
) -> xr.Dataset:
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
    parted = _of_laws(posterior, plan, runs, draws, _parts)
    return parted.assign_attrs(parts=[name for name in parted if name != "expected"])


def _of_laws(
    posterior: Posterior,
    plan: Plan,
    runs: Collection[str] | None,
    draws: int,
    values_of: Callable[[Law, Curves, dict[str, Floats]], dict[str, Floats]],
) -> xr.Dataset:
    """Return values at the points of a plan in the draws of all laws.

    `values_of` returns values by name, shape (draws, points) or (points,), from a law, curves and
    coefficients. What one law has no value of is 0 in its draws.
    """
    prepared = prepare(posterior, plan, runs=runs)
    parts = []
    for law, count in posterior.with_new_groups(prepared.study, prepared.runs).shares(draws):
        curves = prepared.curves(law.frame, prepared.runs)
        coefficients = law.frame.law.coefficients(law.parameters(count), np)
        values = values_of(law.frame.law, curves, coefficients)
        shape = values["expected"].shape
        parts.append({name: np.broadcast_to(value, shape) for name, value in values.items()})
    pooled = {
        name: np.concatenate([part.get(name, np.zeros_like(part["expected"])) for part in parts])
        for name in dict.fromkeys(name for part in parts for name in part)
    }
    names = {"study": posterior.study.name, "model": posterior.frame.spec.name}
    grid = gridded(point_table(curves), posterior.frame.domains, pooled)
    return grid.assign_attrs(names, plan=prepared.study.name)


def _parts(law: Law, curves: Curves, coefficients: dict[str, Floats]) -> dict[str, Floats]:
    """Return the parts of `decompose` and what they add up to."""
    points, gathered = curves.points, gather(curves.points, coefficients, np)
    parts = {}
    for term in law.terms:
        if isinstance(term, Annealing):
            parts["annealing_pt"], parts["annealing_cpt"] = term.shares(points, gathered, np)
        else:
            parts[term.name] = term.loss(points, gathered, np)
    parts["base_offset"] = law.offset_loss(points, curves.bases, coefficients, np)
    parts["expected"] = law.curve_loss(points, curves.bases, coefficients, np)
    return parts


def hidden_curves(
    posterior: Posterior, plan: Plan = None, runs: Collection[str] | None = None, draws: int = DRAWS
) -> xr.Dataset:
    """Return the two hidden pre-training curves between which CPT moves (Fig. 1 of arXiv 2505.07796).

    Parameters
    ----------
    posterior, plan, runs, draws
        As in `decompose`.

    Returns
    -------
    xarray.Dataset
        Dims draw, run, domain, step, nats/token; NaN at steps that a run has not. ``expected``: the law's
        curve. ``never_left``: the law without shift and transient, on general data alone all the time, at
        the run's own learning rates. ``arrived``: the same run with shift, transient and base offset at
        their limits for S1_cpt → infinity, as if it had always been on its own data.

    Raises
    ------
    PlanError, StudyError
        Naming what cannot be computed.
    """
    return _of_laws(posterior, plan, runs, draws, _hidden)


def _hidden(law: Law, curves: Curves, coefficients: dict[str, Floats]) -> dict[str, Floats]:
    points = curves.points
    target, limit = ("target_share", "other_share"), at_limit(points)
    general = points.map(lambda name, values: 0.0 * values if name in target else values)

    def loss(where: Points, names: list[str]) -> Floats:
        gathered = gather(where, coefficients, np)
        if where is limit:
            gathered = on_new_data(gathered)
        terms = [term for term in law.terms if term.name in names]
        return np.asarray(sum(term.loss(where, gathered, np) for term in terms))

    transfer = [term.name for term in law.terms if term.name not in PRETRAINING_TERMS]
    lasting = list(PRETRAINING_TERMS)
    return {
        "expected": law.curve_loss(points, curves.bases, coefficients, np),
        "never_left": loss(general, lasting)
        + law.offset_loss(points, curves.bases, coefficients, np),
        "arrived": loss(points, lasting)
        + loss(limit, transfer)
        + law.offset_loss(limit, curves.bases, coefficients, np),
    }


def at_limit(points: Points) -> Points:
    """Return points after endless CPT: what the transfer adds to the loss has reached its limit.

    With `on_new_data`, for a law that discounts repeated tokens.
    """

    def endless(name: str, values: np.ndarray) -> np.ndarray:
        if name not in ENDLESS:
            return values
        # A series of the same value at any power has that as its first term alone.
        return np.where(np.arange(values[0].size) == 0, ENDLESS[name], 0.0 * values)

    return points.map(endless)


def on_new_data(gathered: Mapping[str, Floats]) -> dict[str, Floats]:
    """Return coefficients of points for target data that never repeat."""
    if "U_steps" not in gathered:
        return dict(gathered)
    return {**gathered, "U_steps": np.full_like(gathered["U_steps"], np.inf)}
