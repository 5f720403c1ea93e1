"""What the page takes of the posterior: draws of the parameters, and what they make of areas and bases."""

import base64
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayes_cpt.decisions.search.evaluate import FinalLosses
from bayes_cpt.laws.areas import MomentumInterpolant, annealing_basis
from bayes_cpt.model.residuals import (
    KNOTS_CPT,
    ONSET_SHARE,
    knot_count,
    misfit_position,
    misfit_ramps,
    misfit_walk,
)
from bayes_cpt.model.setup import Frame
from bayes_cpt.planner.javascript import LawCode
from bayes_cpt.study.runs import Base

type Floats = NDArray[np.float64]


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


@dataclass(frozen=True)
class AreaNodes:
    """How S2 follows from schedules: run along a schedule at each node, and weighted in each draw.

    Parameters
    ----------
    nodes : list of dict
        What the recursion of the page takes at each node, by name.
    weights : ndarray, shape (draws, nodes)
        S2 of a draw is this times S2 at the nodes, whatever the schedule.
    """

    nodes: list[dict[str, float]]
    weights: Floats

    @classmethod
    def of(cls, model: FinalLosses) -> "AreaNodes":
        """Return the nodes of a law in some posterior draws.

        Parameters
        ----------
        model : FinalLosses
        """
        sample = model.sample
        momenta = sample.momentum_range
        basis = annealing_basis(sample.coefficients, momenta)
        series = MomentumInterpolant.from_areas(np.eye(momenta.nodes), momenta).coefficients
        nodes = [{"momentum": float(own)} for own in momenta.node_momenta()]
        return cls(nodes, np.asarray(basis @ series.T))


def law_draws(
    model: FinalLosses, codes: tuple[LawCode, ...], normals: Floats, longest: int
) -> dict[str, Any]:
    """Return all that the page's law takes of the posterior draws.

    Parameters
    ----------
    model : FinalLosses
    codes : tuple of LawCode
        One for each validation set.
    normals : ndarray, shape (draws,)
        What a new run's noise is paired with in each draw.
    longest : int
        Steps of the longest run of the page.
    """
    frame = model.sample.frame
    areas = AreaNodes.of(model)
    return {
        "draws": model.draws,
        "normals": packed(normals),
        "reference": vars(frame.reference),
        "areas": {"nodes": areas.nodes, "weights": packed(areas.weights)},
        "misfit": misfit_table(frame, longest),
        "parameters": [
            {name: packed(_own(model, name, place)) for name in code.parameters}
            for place, code in enumerate(codes)
        ],
    }


def _own(model: FinalLosses, name: str, place: int) -> Floats:
    """Return the draws of a parameter for one validation set."""
    frame, values = model.sample.frame, model.parameters[name]
    dims = frame.parameters()[name].dims
    if dims is None:
        return values
    return values[:, frame.coords()[dims].index(frame.domains[place])]


def misfit_table(frame: Frame, longest: int) -> dict[str, Any]:
    """Return the variance of a misfit of size 1 at its knots, and the covariance of neighbouring knots.

    Between two knots the misfit is a straight line (`bayes_cpt.model.residuals.misfit_ramps`).

    Parameters
    ----------
    frame : Frame
    longest : int
        Steps that the knots reach.
    """
    onset = ONSET_SHARE * frame.reference.steps
    carried, innovation = misfit_walk(frame.spec.residuals.misfit_memory, KNOTS_CPT)
    last = knot_count(misfit_position(longest, onset, KNOTS_CPT)) + 1
    ramps = innovation * misfit_ramps(np.arange(last + 1.0), last, carried)
    return {
        "onset": onset,
        "knots_per_fold": KNOTS_CPT,
        "variance": (ramps**2).sum(axis=1).tolist(),
        "covariance": (ramps[1:] * ramps[:-1]).sum(axis=1).tolist(),
    }


def base_states(model: FinalLosses, bases: tuple[Base, ...]) -> list[dict[str, Any]]:
    """Return what a run finds at each base: learning rate, areas, and where its losses start.

    Parameters
    ----------
    model : FinalLosses
    bases : tuple of Base
    """
    table = model.bases(bases)
    areas = range(len(model.domains))
    return [
        {
            "initial": base.schedule.final if base.schedule else 0.0,
            "forward": float(table.forward[index]),
            "annealing": packed(table.annealing[index]),
            "memories": packed(table.memories[index]),
            "offset": [packed(table.offset[place, index]) for place in areas],
            "loss": [packed(table.loss[place, index]) for place in areas],
            "known": [bool(table.known[place, index]) for place in areas],
        }
        for index, base in enumerate(bases)
    ]
