"""The D-CPT law and the data-mixing law as baselines: least squares, residual bootstrap.

Both know nothing of learning rates or of the base. A point along a curve is taken for the end of a run of
that length, as the D-CPT law is fitted; the data-mixing law is of one length and is fitted to last losses
alone, so it says the same at every step. r is the share of the validation set's own data in the batches:
general data for the general set, a target's data for that target's.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.study.runs import Run
from bayes_cpt.study.study import Study
from bayes_cpt.validate.paper_method import BaselineError

if TYPE_CHECKING:
    import pandas as pd


STARTS = 12
REFITS = 40
RESIDUALS_PER_REFIT = 12
# Of a curve: neighbouring points tell the same.
POINTS = 20


def d_cpt_losses(parameters: Floats, steps: Floats, share: Floats) -> Floats:
    """Return losses by the D-CPT law at one model size (Que et al. 2024, arXiv 2406.01375, Eq. 6).

    ``E + B·r^eta/D^beta + C/(r + epsilon)^gamma``, D in steps over the typical length; A/N^alpha is a part
    of E.

    Parameters
    ----------
    parameters : ndarray, shape (7,)
        E and the logs of B, eta, beta, C, epsilon and gamma.
    steps, share : ndarray, shape (points,)
        Steps over the typical length; r.
    """
    limit = parameters[0]
    size, eta, beta, mixing, shift, gamma = np.exp(parameters[1:])
    floor = np.maximum(share, 1e-9)
    return np.asarray(limit + size * floor**eta * steps**-beta + mixing * (share + shift) ** -gamma)


def mixing_losses(parameters: Floats, steps: Floats, share: Floats) -> Floats:
    """Return losses by the data-mixing law of two kinds of data (Ye et al. 2024, arXiv 2403.16952, Eq. 1).

    ``c + k·exp(t·r)``

    Parameters
    ----------
    parameters : ndarray, shape (3,)
        c, the log of k, and t.
    steps : ndarray
        Not used.
    share : ndarray, shape (points,)
        r.
    """
    limit, log_size, rate = parameters
    return np.asarray(limit + np.exp(log_size + rate * share))


@dataclass(frozen=True)
class FinalLossLaw:
    """A law of final losses.

    Parameters
    ----------
    name : str
    losses : callable
        As `d_cpt_losses`.
    lowest, highest : tuple of float
        Where starts are drawn from; the first parameter is counted from the mean loss.
    last_only : bool
        Whether it is fitted to the last losses of runs alone.
    """

    name: str
    losses: Callable[[Floats, Floats, Floats], Floats]
    lowest: tuple[float, ...]
    highest: tuple[float, ...]
    last_only: bool


D_CPT = FinalLossLaw(
    "d-cpt",
    d_cpt_losses,
    (-1.0, -4.0, -3.0, -3.0, -5.0, -4.0, -2.0),
    (0.0, 0.0, 1.0, 0.5, 0.0, 0.0, 0.7),
    last_only=False,
)
DATA_MIXING = FinalLossLaw(
    "data-mixing", mixing_losses, (-1.0, -4.0, -8.0), (0.5, 0.5, 0.0), last_only=True
)
LAWS = {law.name: law for law in (D_CPT, DATA_MIXING)}


def predict(
    law: FinalLossLaw, study: Study, plan: Study, points: "pd.DataFrame", *, seed: int = 0
) -> Floats:
    """Fit a law to the CPT runs of a study and return draws of a plan's losses.

    Parameters
    ----------
    law : FinalLossLaw
    study, plan : Study
        The plan's losses are not read.
    points : DataFrame
        Columns run, domain, step: what to predict, runs being CPT runs of the plan.
    seed : int

    Returns
    -------
    ndarray, shape (draws, points)
        nats/token.

    Raises
    ------
    BaselineError
        If a run is none of CPT, or the study has too few losses for the law's parameters.
    """
    generator = np.random.default_rng(seed)
    typical = float(np.median([run.schedule.steps for run in study.continual_runs] or [1]))
    draws = np.empty((REFITS * RESIDUALS_PER_REFIT, len(points)))
    check_asked(law, study, plan, points)
    for domain in sorted(set(points["domain"])):
        steps, share, losses = _measured(law, study, domain)
        here = np.flatnonzero(points["domain"] == domain)
        rows = points.iloc[here]
        wanted = (
            rows["step"].to_numpy(np.float64) / typical,
            np.array([_share(plan, plan.run(str(name)), domain) for name in rows["run"]]),
        )
        best = _fit(law, steps / typical, share, losses, _starts(law, losses, generator))
        fitted = law.losses(best, steps / typical, share)
        residuals = losses - fitted
        drawn = []
        for _ in range(REFITS):
            resampled = fitted + generator.choice(residuals, residuals.size)
            refit = _fit(law, steps / typical, share, resampled, best[None])
            curve = law.losses(refit, *wanted)
            drawn += [
                curve + generator.choice(residuals, len(here)) for _ in range(RESIDUALS_PER_REFIT)
            ]
        draws[:, here] = drawn
    return draws


def check_asked(law: FinalLossLaw, study: Study, plan: Study, points: "pd.DataFrame") -> None:
    """Check that a law can be fitted to a study and asked for points, as `predict` needs it.

    Parameters
    ----------
    law, study, plan, points
        As for `predict`.

    Raises
    ------
    BaselineError
        As `predict` does.
    """
    for domain in sorted(set(points["domain"])):
        count = _measured(law, study, domain)[2].size
        if count <= len(law.lowest):
            raise BaselineError(
                f"The {law.name} law has {len(law.lowest)} parameters, and the study {count} losses "
                f"of CPT runs on {domain}: measure more runs, or leave the baseline out."
            )
    if any(plan.run(str(name)).phase == "pt" for name in set(points["run"])):
        raise BaselineError(f"The {law.name} law is about CPT runs: leave PT runs out.")


def _share(study: Study, run: Run, domain: str) -> float:
    """Return the share of a validation set's own data; of one that none train on that of replay."""
    replay = float(run.replay or 0.0)
    if domain not in study.targets:
        return replay
    return (1.0 - replay) * study.mixture(run).get(domain, 0.0)


def _measured(law: FinalLossLaw, study: Study, domain: str) -> tuple[Floats, Floats, Floats]:
    """Return steps, shares and losses of the points that a law is fitted to."""
    parts = []
    for run in study.continual_runs:
        steps, losses = study.curve(run.name, domain)
        kept = steps > 0
        if law.last_only:
            # A run that was seen part-way has no final loss.
            kept = steps == run.schedule.steps
        elif kept.sum() > POINTS:
            chosen = np.linspace(0, kept.sum() - 1, POINTS).round().astype(np.int64)
            kept = np.isin(steps, steps[kept][chosen])
        share = np.full(int(kept.sum()), _share(study, run, domain))
        parts.append((steps[kept].astype(np.float64), share, losses[kept]))
    columns = zip(*parts, strict=True) if parts else [[np.empty(0)]] * 3
    every, shares, measured = (np.concatenate(column).astype(np.float64) for column in columns)
    return every, shares, measured


def _starts(law: FinalLossLaw, losses: Floats, generator: np.random.Generator) -> Floats:
    starts = generator.uniform(law.lowest, law.highest, size=(STARTS, len(law.lowest)))
    starts[:, 0] += losses.mean()
    return np.asarray(starts)


def _fit(law: FinalLossLaw, steps: Floats, share: Floats, losses: Floats, starts: Floats) -> Floats:
    """Return the parameters of least squares from some starts."""
    from scipy.optimize import least_squares

    low = np.array([-np.inf, *(np.array(law.lowest[1:]) - 6.0)])
    high = np.array([np.inf, *(np.array(law.highest[1:]) + 3.0)])
    best, lowest = starts[0], np.inf
    for start in starts:
        solution = least_squares(
            lambda parameters: law.losses(parameters, steps, share) - losses,
            np.clip(start, low, high),
            bounds=(low, high),
            max_nfev=200,
        )
        if np.isfinite(solution.cost) and solution.cost < lowest:
            best, lowest = solution.x, float(solution.cost)
    return np.asarray(best)
