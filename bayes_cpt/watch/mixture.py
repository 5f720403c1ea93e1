"""A mixture of Gaussians over the evaluations of a run, one for each size that its residuals may have."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import log_ndtr, logsumexp, ndtr, ndtri, ndtri_exp

from bayes_cpt.arrays import Floats

# Curves that are looked at together: memory.
TOGETHER = 200
# Of a tail, below which it is reckoned by itself: a difference from 1 has fewer digits.
SMALL_TAIL = 1e-3
# Of a tail, below which it is reckoned by its logarithm: weights and tails of members run out of numbers.
SMALLEST_TAIL = 1e-200


@dataclass(frozen=True, eq=False)
class Mixture:
    """Gaussians of one mean, equally likely before anything is measured.

    Parameters
    ----------
    mean : ndarray, shape (rows,)
        In the order in which they are measured, nats/token.
    covariances : ndarray, shape (members, rows, rows)
        (nats/token)^2.
    """

    mean: Floats
    covariances: Floats

    @cached_property
    def covariance(self) -> Floats:
        """Of the whole mixture, shape (rows, rows), (nats/token)^2."""
        return np.asarray(self.covariances.mean(axis=0))

    @cached_property
    def _roots(self) -> Floats:
        return np.asarray(np.linalg.cholesky(self.covariances))

    def of_rows(self, rows: Sequence[int]) -> Self:
        """Return the mixture of some of the rows.

        Parameters
        ----------
        rows : sequence of int
        """
        chosen = list(rows)
        return type(self)(self.mean[chosen], self.covariances[:, chosen][:, :, chosen])

    def _unit(self, losses: Floats) -> tuple[Floats, Floats]:
        """Return innovations over their size and log densities of rows, (members, curves, rows) each."""
        count = losses.shape[1]
        off = (losses - self.mean[:count]).T
        unit = np.stack(
            [solve_triangular(root[:count, :count], off, lower=True).T for root in self._roots]
        )
        sizes = np.diagonal(self._roots, axis1=1, axis2=2)[:, None, :count]
        return unit, -0.5 * unit**2 - np.log(sizes)

    def weights(self, losses: Floats) -> Floats:
        """Return how likely each member is given the first rows, shape (members,).

        Parameters
        ----------
        losses : ndarray, shape (seen,)
        """
        if not losses.size:
            return np.full(len(self.covariances), 1.0 / len(self.covariances))
        density = self._unit(losses[None])[1].sum(axis=2)[:, 0]
        return np.asarray(np.exp(density - logsumexp(density)))

    def white(self, losses: Floats) -> Floats:
        """Return normal scores of each row given those before it, shape (curves, rows).

        Of curves of the mixture they are independent and standard normal (Rosenblatt 1952,
        doi:10.1214/aoms/1177729394).

        Parameters
        ----------
        losses : ndarray, shape (curves, rows)
            Of the first rows of curves.
        """
        parts = [self._white(part) for part in _parts(losses)]
        return np.concatenate(parts) if parts else np.empty_like(losses)

    def _white(self, losses: Floats) -> Floats:
        unit, density = self._unit(losses)
        before = np.cumsum(density, axis=2) - density
        before -= before.max(axis=0)
        weights = np.exp(before)
        weights /= weights.sum(axis=0)
        low = np.einsum("mcr,mcr->cr", weights, ndtr(unit))
        high = 1.0 - low
        # A small tail is no difference of two numbers near 1.
        small = high < SMALL_TAIL
        high[small] = np.einsum("mk,mk->k", weights[:, small], ndtr(-unit[:, small]))
        side, nearer = np.where(low < high, 1.0, -1.0), np.minimum(np.minimum(low, high), 0.5)
        score = ndtri(nearer)
        far = nearer < SMALLEST_TAIL
        if far.any():
            # Logarithms take several times as long, and few curves are as far out.
            logs = before[:, far] - logsumexp(before[:, far], axis=0)
            score[far] = ndtri_exp(logsumexp(logs + log_ndtr(side[far] * unit[:, far]), axis=0))
        return np.asarray(side * score)

    def given(self, seen: Sequence[int], losses: Floats) -> tuple[Floats, Floats]:
        """Return mean and standard deviation of every row given some, shape (rows,) each.

        Parameters
        ----------
        seen : sequence of int
            Rows that were measured, rising.
        losses : ndarray, shape (seen,)
        """
        rows = list(seen)
        if not rows:
            return self.mean, np.sqrt(np.diag(self.covariance))
        measured = self.of_rows(rows)
        weights = measured.weights(losses)
        across = self.covariances[:, rows]
        gain = np.linalg.solve(measured.covariances, across)
        means = self.mean + np.einsum("msr,s->mr", gain, losses - measured.mean)
        variances = np.diagonal(self.covariances, axis1=1, axis2=2) - (across * gain).sum(axis=1)
        mean = weights @ means
        spread = weights @ (variances + (means - mean) ** 2)
        return mean, np.sqrt(np.maximum(spread, 0.0))


def _parts(curves: Floats) -> list[Floats]:
    return [curves[start : start + TOGETHER] for start in range(0, len(curves), TOGETHER)]
