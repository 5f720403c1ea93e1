"""What a loss curve is made of: the law's terms, and the hidden curves that it moves between."""

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr

from bayes_cpt.arrays import Floats
from bayes_cpt.forecast.drawn import gridded, point_table
from bayes_cpt.forecast.plans import Plan, prepare
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.laws.pretraining import Annealing
from bayes_cpt.model.evaluate import Draws, Tile, at_points, law_losses, losses, start_offsets
from bayes_cpt.model.points import Curves, Points

DRAWS = 500
# Steps are finite, so that a law can divide them by data without end.
ENDLESS = 1e300
# Values of curves in draws, by name, shape (points, draws).
type ValuesOf = Callable[[Curves, Draws], dict[str, Floats]]
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
    """
    parted = _of_laws(posterior, plan, runs, draws, _parts)
    return parted.assign_attrs(parts=[name for name in parted if name != "expected"])


def _of_laws(
    posterior: Posterior, plan: Plan, runs: Collection[str] | None, draws: int, values_of: ValuesOf
) -> xr.Dataset:
    """Return values at the points of a plan in the draws of all laws.

    What one law has no value of is 0 in its draws.
    """
    prepared = prepare(posterior, plan, runs=runs)
    parts = []
    for law, count in posterior.with_new_groups(prepared.study, prepared.runs).shares(draws):
        own = Draws.of(law.frame, law.parameters(count))
        curves = prepared.curves(law.frame, prepared.runs, own.form)
        parts.append({name: value.T for name, value in values_of(curves, own).items()})
    pooled = {
        name: np.concatenate([part.get(name, np.zeros_like(part["expected"])) for part in parts])
        for name in dict.fromkeys(name for part in parts for name in part)
    }
    names = {"study": posterior.study.name, "model": posterior.frame.spec.name}
    grid = gridded(point_table(curves), posterior.frame.domains, pooled)
    return grid.assign_attrs(names, plan=prepared.study.name)


def _parts(curves: Curves, draws: Draws) -> dict[str, Floats]:
    """Return the parts of `decompose` and what they add up to."""
    offsets = start_offsets(curves, draws)

    def parts(tile: Tile) -> dict[str, Any]:
        found, given = {}, (tile, tile.gathered, np)
        for term in draws.frame.law.terms:
            if isinstance(term, Annealing):
                found["annealing_pt"], found["annealing_cpt"] = term.shares(*given)
            else:
                found[term.name] = term.loss(*given)
        return found | {"base_offset": 0.0 if offsets is None else tile.kept(offsets)}

    return at_points(curves.points, draws, parts) | {"expected": losses(curves, draws)}


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
    """
    return _of_laws(posterior, plan, runs, draws, _hidden)


def _hidden(curves: Curves, draws: Draws) -> dict[str, Floats]:
    points, offsets = curves.points, start_offsets(curves, draws)
    nothing = np.zeros_like(points.target_share)
    on_general = replace(points, target_share=nothing, other_share=nothing)
    lasting = [term for term in draws.frame.law.terms if term.name in PRETRAINING_TERMS]
    return {
        "expected": losses(curves, draws),
        "never_left": law_losses(on_general, draws, offsets, lasting),
        "arrived": law_losses(points, draws, None, lasting) + transferred(points, draws, offsets),
    }


def transferred(points: Points, draws: Draws, offsets: Floats | None = None) -> Floats:
    """Return what the transfer adds to the loss after endless CPT, shape (points, draws).

    Of target data that never repeat, for a law that discounts repeated tokens. `offsets` are those of
    `bayes_cpt.model.evaluate.law_losses`.
    """
    coefficients = dict(draws.coefficients)
    if "U_steps" in coefficients:
        coefficients["U_steps"] = np.full_like(coefficients["U_steps"], np.inf)
    terms = [term for term in draws.frame.law.terms if term.name not in PRETRAINING_TERMS]
    # A series of the same value at any power has that as its first term alone.
    log_shift = np.zeros_like(points.log_shift)
    log_shift[:, 0] = np.inf
    late = replace(points, log_shift=log_shift, cpt_steps=np.full_like(points.cpt_steps, ENDLESS))
    return law_losses(late, replace(draws, coefficients=coefficients), offsets, terms)
