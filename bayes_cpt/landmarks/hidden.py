"""Hidden curves: where a run would be had it never left the general data, or had the shift arrived."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.landmarks.decomposition import curve_dataset, of_laws
from bayes_cpt.laws.law import Law, gather
from bayes_cpt.model.points import Curves, Points
from bayes_cpt.study.study import Study

if TYPE_CHECKING:
    import xarray as xr


DRAWS = 500
# Steps are finite, so that a law can divide them by data without end.
ENDLESS = {"forward_cpt": np.inf, "cpt_steps": 1e300}
# Terms that a run on general data has too.
PRETRAINING_TERMS = ("power", "annealing", "peak", "size")


def hidden_curves(
    posterior: Posterior,
    plan: "Study | str | Path | None" = None,
    runs: Collection[str] | None = None,
    draws: int = DRAWS,
) -> "xr.Dataset":
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
    target, curves, values = of_laws(posterior, plan, runs, draws, _hidden)
    return curve_dataset(posterior, target, curves, values)


def _hidden(law: Law, curves: Curves, coefficients: dict[str, Floats]) -> dict[str, Floats]:
    points = curves.points
    general, limit = _on_general_data(points), at_limit(points)

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

    Parameters
    ----------
    points : Points
        Of CPT runs.
    """

    def endless(name: str, values: np.ndarray) -> np.ndarray:
        return np.full_like(values, ENDLESS[name]) if name in ENDLESS else values

    return points.map(endless)


def on_new_data(gathered: Mapping[str, Floats]) -> dict[str, Floats]:
    """Return coefficients of points for target data that never repeat.

    Parameters
    ----------
    gathered : mapping
        From `bayes_cpt.laws.law.gather`.
    """
    endless = {
        name: np.full_like(own, np.inf) for name, own in gathered.items() if name == "U_steps"
    }
    return {**gathered, **endless}


def _on_general_data(points: Points) -> Points:
    target = ("target_share", "other_share")
    return points.map(lambda name, values: 0.0 * values if name in target else values)
