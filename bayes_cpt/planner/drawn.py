"""What the page takes of the posterior: draws of the parameters, and what they make of areas and bases."""

import base64
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bayes_cpt.arrays import Floats
from bayes_cpt.decisions.final_losses import FinalLosses
from bayes_cpt.laws.areas import SMALLEST
from bayes_cpt.laws.series import Interval
from bayes_cpt.model.discrepancy import OWN_SHARE
from bayes_cpt.model.residuals import ONSET_SHARE
from bayes_cpt.model.setup import Frame
from bayes_cpt.planner.javascript import LawCode
from bayes_cpt.study.runs import Base


def packed(values: ArrayLike) -> str:
    """Return numbers as the page reads them: doubles, the first axis slowest, in base64.

    Parameters
    ----------
    values : array_like

    Examples
    --------
    >>> packed([1.0])
    'AAAAAAAA8D8='
    """
    array = np.ascontiguousarray(values, dtype="<f8")
    return base64.b64encode(array.tobytes()).decode("ascii")


def _area_nodes(model: FinalLosses) -> dict[str, Any]:
    """Return how areas follow from schedules: run along one at nodes, and weighted in each draw.

    What depends on a number that is estimated, such as the level on lambda, is a series in it
    (`bayes_cpt.laws.series`). The page runs along a schedule at the nodes of the series; a
    draw's own level is a sum over these, whose weights do not depend on the schedule.
    """
    form, coefficients = model.laws[0].draws.form, model.coefficients
    return {
        "reference_rate": form.reference_rate,
        "memory_clock": form.memory_clock,
        "shift_power": form.shift_power,
        "smallest": SMALLEST,
        "level": {
            "momenta": form.momenta.node_momenta().tolist(),
            "weights": packed(_weights(form.momenta.interval, form.level_basis(coefficients))),
        },
        "forward": {
            "powers": form.powers.interval.at_nodes().tolist(),
            "weights": packed(_weights(form.powers.interval, form.forward_basis(coefficients))),
        },
    }


def _weights(interval: Interval, basis: Floats) -> Floats:
    """Return what draws make of values at the nodes, shape (draws, nodes), from their basis."""
    return np.asarray(basis @ interval.series(np.eye(interval.nodes)).T)


def law_draws(model: FinalLosses, codes: tuple[LawCode, ...], normals: Floats) -> dict[str, Any]:
    """Return all that the page's law takes of the posterior draws.

    Parameters
    ----------
    model : FinalLosses
    codes : tuple of LawCode
        One for each validation set.
    normals : ndarray, shape (draws,)
        What a new run's noise is paired with in each draw.
    """
    frame = model.frame
    return {
        "draws": model.draws,
        "normals": packed(normals),
        "reference": vars(frame.reference),
        "areas": _area_nodes(model),
        "correlation": vars(model.correlation),
        "own_share": OWN_SHARE,
        "misfit": misfit_table(frame),
        "parameters": [
            {name: packed(_own(model, name, place)) for name in code.parameters}
            for place, code in enumerate(codes)
        ],
    }


def _own(model: FinalLosses, name: str, place: int) -> Floats:
    """Return the draws of a parameter for one validation set."""
    frame, values = model.frame, model.parameters[name]
    dims = frame.parameters()[name].dims
    if dims is None:
        return values
    return values[:, frame.coords()[dims].index(frame.domains[place])]


def misfit_table(frame: Frame) -> dict[str, Any]:
    """Return what the variance of a misfit of size 1 follows from (`bayes_cpt.model.residuals`).

    Parameters
    ----------
    frame : Frame

    Returns
    -------
    dict
        Where the logarithm sets in, steps, and the share that is carried over an e-fold of steps.
    """
    return {
        "onset": ONSET_SHARE * frame.reference.steps,
        "carried": frame.spec.residuals.misfit_memory,
    }


def base_states(model: FinalLosses, bases: tuple[Base, ...]) -> list[dict[str, Any]]:
    """Return what a run finds at each base: learning rate, areas, and where its losses start.

    Parameters
    ----------
    model : FinalLosses
    bases : tuple of Base
    """
    [table], [law] = model.tables(bases), model.laws
    places = range(len(model.domains))
    # A curve from each base on each validation set: what is said of the base is the same on all.
    starts = table.curves.bases.map(lambda name, values: values[:: len(places)])
    levels = law.draws.form.levels_in_draws(starts.level_pt, law.draws.level_basis)
    return [
        {
            "initial": base.schedule.final if base.schedule else 0.0,
            "start_pt": float(starts.start_pt[index]),
            "log_peak_pt": float(starts.log_peak_pt[index]),
            "level": packed(levels[index]),
            "initial_levels": table.initial[index].tolist(),
            "forward": table.forward[index].tolist(),
            "offset": [packed(table.offset[place, index]) for place in places],
            "loss": [packed(table.loss[place, index]) for place in places],
            "known": [bool(table.known[place, index]) for place in places],
        }
        for index, base in enumerate(bases)
    ]
