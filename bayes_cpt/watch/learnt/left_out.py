"""Fitted runs as though the fit had not seen them: the law without them, in closed form.

Residuals of fitted runs are smaller than those of runs that no fit saw, as the fit bends towards its own.
About the posterior mean the law's curves are linear in what is not known, and residuals are Gaussian given
their sizes. So with x the posterior in white coordinates, ``x ~ Normal(0, 1)``, and the curves of a run
``y = m + J·x + e``, ``e ~ Normal(0, R)``, the run told ``A = J'R^-1 J`` of the precision and
``b = J'R^-1 (y - m)`` of the mean, and without it

    x ~ Normal(-(1 - A)^-1·b, (1 - A)^-1).

Where a run alone tells of a direction, A is nearly 1, and the posterior without it is the prior, far off
and not linear. There only so much of what it told is taken away that the share `MOST_TOLD` was its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from bayes_cpt.arrays import Floats
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.model.bases.lone_bases import with_lone_bases
from bayes_cpt.model.points import Curves
from bayes_cpt.model.residuals import Placed, ResidualDesign, Scales, predictive_parts
from bayes_cpt.model.simulate import expected_loss, scales_of
from bayes_cpt.study.runs import Run
from bayes_cpt.study.study import Study

# Draws for the law's curves, and for the sizes of residuals, which hardly differ between draws.
DRAWS, SIZE_DRAWS = 800, 40
MOST_TOLD = 0.9
# Directions that the law's curves hardly move in, as a share of the one they move in most.
SMALLEST_DIRECTION = 1e-4
# A jitter for the covariance, nats: no loss is measured more finely.
FINEST_LOSS = 1e-5


@dataclass(frozen=True, eq=False)
class LeftOut:
    """A fitted run without which the law is known.

    Parameters
    ----------
    run : Run
    study : Study
        Where it is, lone bases included.
    domains : tuple of str
        Validation set of each point.
    steps : ndarray of int, shape (points,)
        By validation set, rising.
    losses : ndarray, shape (points,)
        Measured, nats/token.
    mean : ndarray, shape (points,)
        Of the law's curves without the run, nats/token.
    directions : ndarray, shape (points, directions)
        What independent standard normal numbers add to the law's curves without the run.
    misfit, fluctuation : ndarray, shape (points, points)
        Covariances, the level with the misfit; validation sets independent as the fit takes them.
    """

    run: Run
    study: Study
    domains: tuple[str, ...]
    steps: NDArray[np.int64]
    losses: Floats
    mean: Floats
    directions: Floats
    misfit: Floats
    fluctuation: Floats

    def at(self, places: Sequence[int] | NDArray[np.int64]) -> Self:
        """Return some of the points.

        Parameters
        ----------
        places : sequence of int
        """
        chosen = np.asarray(places)
        return type(self)(
            self.run,
            self.study,
            tuple(self.domains[place] for place in chosen),
            self.steps[chosen],
            self.losses[chosen],
            self.mean[chosen],
            self.directions[chosen],
            self.misfit[np.ix_(chosen, chosen)],
            self.fluctuation[np.ix_(chosen, chosen)],
        )

    def of_domain(self, domain: str) -> NDArray[np.int64]:
        """Return the places of a validation set.

        Parameters
        ----------
        domain : str
        """
        return np.flatnonzero(np.array(self.domains) == domain)

    def log_density(self, fluctuation: float, misfit: float) -> float:
        """Return the log density of the losses if residuals are larger by factors, but for a constant.

        Parameters
        ----------
        fluctuation, misfit : float
        """
        law = self.directions @ self.directions.T
        whole = law + misfit**2 * self.misfit + fluctuation**2 * self.fluctuation
        root = np.linalg.cholesky(whole)
        white = np.linalg.solve(root, self.losses - self.mean)
        return float(-0.5 * white @ white - np.log(np.diag(root)).sum())


def left_out_runs(posterior: Posterior, *, continual: bool) -> list[LeftOut]:
    """Return each fitted run of a phase; none where residuals are independent, which have no curves.

    Parameters
    ----------
    posterior : Posterior
        Of one law.
    continual : bool
        Whether runs of CPT or of PT are asked for.
    """
    frame = posterior.frame
    if frame.spec.residuals.kind == "independent":
        return []
    study = with_lone_bases(posterior.study, frame.domains) if continual else posterior.study
    runs = study.continual_runs if continual else study.pretraining_runs
    found = []
    for run in runs:
        curves = frame.curves(
            study, lambda run, domain: frame.fitted_steps(study, run, domain), runs=[run]
        )
        if curves.points.loss.size:
            found.append(_left_out(posterior, study, run, curves))
    return found


def _left_out(posterior: Posterior, study: Study, run: Run, curves: Curves) -> LeftOut:
    frame = posterior.frame
    design = frame.residual_design(curves)
    scales = scales_of(frame, posterior.parameters(SIZE_DRAWS), curves, design)
    misfit, fluctuation = _covariances(curves, design, scales)
    expected = expected_loss(frame, posterior.parameters(DRAWS), curves)
    mean = expected.mean(axis=0)
    directions = _directions(expected - mean)
    residual = misfit + fluctuation + FINEST_LOSS**2 * np.eye(mean.size)
    told = cho_solve(cho_factor(residual), np.c_[directions, curves.points.loss - mean])
    shares, vectors = np.linalg.eigh(directions.T @ told[:, :-1])
    # What is taken away of each direction: all, or as much as leaves it known.
    taken = np.minimum(1.0, MOST_TOLD / np.maximum(shares, MOST_TOLD))
    left = 1.0 - taken * np.maximum(shares, 0.0)
    moved = vectors @ (taken / left * (vectors.T @ (directions.T @ told[:, -1])))
    return LeftOut(
        run,
        study,
        tuple(curves.curves[place].domain for place in curves.points.curve_index),
        curves.points.steps.astype(np.int64),
        curves.points.loss,
        mean - directions @ moved,
        directions @ vectors / np.sqrt(left),
        misfit,
        fluctuation,
    )


def _directions(off: Floats) -> Floats:
    """Return what curves are made of, shape (points, directions), from draws of them about their mean."""
    _, sizes, vectors = np.linalg.svd(off / np.sqrt(max(len(off) - 1, 1)), full_matrices=False)
    known = sizes > max(SMALLEST_DIRECTION * sizes[0], FINEST_LOSS)
    return np.asarray(vectors[known].T * sizes[known])


def _covariances(curves: Curves, design: ResidualDesign, scales: Scales) -> tuple[Floats, Floats]:
    """Return covariances of misfit and fluctuation, the means over draws, shape (points, points) each."""
    count = curves.points.loss.size
    misfit, fluctuation = np.zeros((2, count, count))
    # No fitted point lies beyond what was measured.
    columns = curves.elapsed, design.floating, design.anchored, np.zeros(count)
    draws = len(scales.fluctuation)
    for first, last in zip(design.first, design.last, strict=True):
        rows = slice(int(first), int(last))
        unit = design.ramps[rows] @ design.ramps[rows].T
        for draw in range(draws):
            own = Scales(*(getattr(scales, part.name)[draw, rows] for part in fields(scales)))
            one, two = (
                Placed(
                    Scales(*(value[along] for value in vars(own).values())),
                    *(column[rows][along] for column in columns),
                )
                for along in (np.s_[:, None], np.s_[None, :])
            )
            of_fluctuation, of_law = predictive_parts(one, two, unit, np)
            fluctuation[rows, rows] += of_fluctuation / draws
            misfit[rows, rows] += of_law / draws
    return misfit, fluctuation
