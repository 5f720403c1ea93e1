"""Draws of the curves of third validation sets, from draws of the law's losses of the same runs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.arrays import Floats
from bayes_cpt.errors import Problem
from bayes_cpt.forecast.plans import PlanError, Prepared
from bayes_cpt.forecast.third_sets.regression import drawn_residual
from bayes_cpt.forecast.third_sets.weights import ThirdSet
from bayes_cpt.model.misfit.curve_residuals import CurveResidual, known_residual
from bayes_cpt.model.points import Curves
from bayes_cpt.model.setup import Frame
from bayes_cpt.model.simulate import CurveDraws

if TYPE_CHECKING:
    import pandas as pd


# Of bands, those that hold losses.
COLUMNS = ("mean", "median", "sd", "lower", "upper")


@dataclass(frozen=True, eq=False)
class DrawnCurve:
    """Draws of one curve at some of its steps.

    Parameters
    ----------
    run, domain : str
    steps : ndarray of int, shape (points,)
    expected, loss : ndarray, shape (draws, points)
        As in `bayes_cpt.model.simulate.CurveDraws`.
    """

    run: str
    domain: str
    steps: NDArray[np.int64]
    expected: Floats
    loss: Floats


def law_curves(curves: Curves, drawn: CurveDraws) -> list[DrawnCurve]:
    """Return draws of the law's losses curve by curve.

    Parameters
    ----------
    curves : Curves
    drawn : CurveDraws
        At their points.
    """
    by_curve = []
    for index, curve in enumerate(curves.curves):
        rows = np.flatnonzero(curves.points.curve_index == index)
        steps = curves.points.steps[rows].astype(np.int64)
        by_curve.append(
            DrawnCurve(curve.run, curve.domain, steps, drawn.expected[:, rows], drawn.loss[:, rows])
        )
    return by_curve


def third_curves(
    sets: Sequence[ThirdSet],
    prepared: Prepared,
    frame: Frame,
    curves: Curves,
    drawn: CurveDraws,
    kind: str,
    generator: np.random.Generator,
) -> list[DrawnCurve]:
    """Return draws of third validation sets at their wanted steps.

    Parameters
    ----------
    sets : sequence of ThirdSet
        In the draws that the law's losses were drawn in.
    prepared : Prepared
        What is wanted.
    frame : Frame
        Of the fit.
    curves : Curves
        The law's losses, at the wanted steps of the sets and of themselves.
    drawn : CurveDraws
        Of the law's losses.
    kind : {"expected", "new_run", "known_run"}
    generator : numpy.random.Generator

    Raises
    ------
    PlanError
        Naming bases that nobody measured on a set.
    """
    if not sets:
        return []
    design = frame.residual_design(curves)
    by_run: dict[str, list[int]] = {}
    for index, curve in enumerate(curves.curves):
        if curve.continual:
            by_run.setdefault(curve.run, []).append(index)
    starts = _base_losses(sets, prepared, frame, by_run)
    thirds = []
    for run, own in by_run.items():
        rows = [slice(int(design.first[index]), int(design.last[index])) for index in own]
        expected, slow = (
            np.stack([values[:, points] for points in rows], axis=2) - curves.bases.loss[own]
            for values in (drawn.expected, drawn.slow)
        )
        steps, rate = curves.points.steps[rows[0]], curves.points.learning_rate[rows[0]]
        for third in sets:
            wanted = np.isin(steps, list(prepared.asked[run, third.name]))
            start = starts[run, third.name]
            law, middle = (
                start + np.einsum("dpi,di->dp", changes, third.weights)
                for changes in (expected, slow)
            )
            part = third.residual(rate, design.ramps[rows[0]])
            if kind == "known_run":
                measured = prepared.study.curve(run, third.name)
                loss = middle + _known(part, steps, middle, measured, generator)
            elif kind == "new_run":
                loss = middle + drawn_residual(part, steps, generator)
            else:
                loss = law
            if not wanted.any():
                continue
            kept = steps[wanted].astype(np.int64)
            thirds.append(DrawnCurve(run, third.name, kept, law[:, wanted], loss[:, wanted]))
    return thirds


def _known(
    part: CurveResidual,
    steps: Floats,
    middle: Floats,
    curve: tuple[NDArray[np.int64], Floats],
    generator: np.random.Generator,
) -> Floats:
    """Return residuals about the linear form given the losses measured at some of the steps."""
    seen = np.isin(steps, curve[0])
    measured = curve[1][np.isin(curve[0], steps)]
    at_seen = replace(
        part,
        columns=part.columns[:, seen],
        fluctuation=part.fluctuation[:, seen],
        memory=part.memory[:, seen],
    )
    residual = measured - middle[:, seen]
    return known_residual(part, steps, at_seen, residual, steps[seen], generator)[0]


def _base_losses(
    sets: Sequence[ThirdSet], prepared: Prepared, frame: Frame, runs: Iterable[str]
) -> dict[tuple[str, str], float]:
    """Return what each run's base was measured at on each third set."""
    study, problems = prepared.study, []
    losses: dict[tuple[str, str], float] = {}
    for run in runs:
        base = str(study.run(run).base)
        for domain in (*frame.domains, *(third.name for third in sets)):
            loss = study.base_loss(base, domain)
            if loss is None:
                problems.append(unmeasured_base(f"run {run}", base, domain))
            else:
                losses[run, domain] = loss
    if problems:
        raise PlanError(problems)
    return losses


def unmeasured_base(place: str, base: str, domain: str) -> Problem:
    """Return the problem that a base was not measured on a validation set that Eq. 6 needs.

    Parameters
    ----------
    place : str
        What asks for it.
    base, domain : str
        Names.
    """
    return Problem(
        f"{place}, domain {domain}",
        f"nobody measured the base {base} on it, and third validation sets count from there",
        f"evaluate the base once and add a row at step 0 with domain {domain}",
    )


def drawn_bands(curves: Sequence[DrawnCurve], interval: float) -> "pd.DataFrame":
    """Return bands of draws, with the columns run, step, domain and those that hold losses.

    Parameters
    ----------
    curves : sequence of DrawnCurve
    interval : float
        Mass of the central interval between lower and upper.
    """
    import pandas as pd

    marks = [0.5, 0.5 - interval / 2, 0.5 + interval / 2]
    parts = [pd.DataFrame(columns=["run", "step", "domain", *COLUMNS])] if not curves else []
    for curve in curves:
        median, lower, upper = np.quantile(curve.loss, marks, axis=0)
        parts.append(
            pd.DataFrame(
                {
                    "run": curve.run,
                    "step": curve.steps,
                    "domain": curve.domain,
                    "mean": curve.loss.mean(axis=0),
                    "median": median,
                    "sd": curve.loss.std(axis=0, ddof=1),
                    "lower": lower,
                    "upper": upper,
                }
            )
        )
    return pd.concat(parts, ignore_index=True)


def joined(parts: Sequence[Sequence[DrawnCurve]]) -> list[DrawnCurve]:
    """Return curves with the draws of all laws, from those of each law in the same order.

    Parameters
    ----------
    parts : sequence of sequence of DrawnCurve
    """
    return [
        replace(
            same[0],
            expected=np.concatenate([curve.expected for curve in same]),
            loss=np.concatenate([curve.loss for curve in same]),
        )
        for same in zip(*parts, strict=True)
    ]
