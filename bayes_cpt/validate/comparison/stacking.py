"""Stacking: weights of a mixture of predictive distributions that score best where nothing was fitted.

On plain arrays. Source: Yao, Vehtari, Simpson and Gelman 2018, doi:10.1214/17-BA1091, section 3.
"""

import math
from typing import NamedTuple

import numpy as np

from bayes_cpt.arrays import Floats

# A smaller weight is none: no forecast would have a draw of it.
NONE = 1e-4
# The least density, beside the best law's of the same observation: its log must be finite.
SMALLEST = 1e-300
# Steps of the first rough search, each of which raises the score, and of the fine one.
ROUGH, FINE = 300, 500


class Difference(NamedTuple):
    """A mean difference over observations, and its standard error (NaN for one observation)."""

    mean: float
    error: float


def stacking_weights(log_densities: Floats) -> Floats:
    """Return the weights of the mixture with the largest mean log density, shape (models,).

    ``max sum_i log(sum_k w_k p_ik)`` over the simplex, where p_ik is the density at observation i by a
    model that was not fitted to it. The problem is concave.

    Parameters
    ----------
    log_densities : ndarray, shape (observations, models)
        Larger is better; -inf where a model holds an observation for impossible.

    Returns
    -------
    ndarray, shape (models,)
        At least 0; they add up to 1.

    Raises
    ------
    ValueError
        If there is no observation, or one that no model has a density of.

    Examples
    --------
    >>> stacking_weights(np.array([[0.0, -3.0], [0.0, -2.0]])).round(6).tolist()
    [1.0, 0.0]
    """
    from scipy.optimize import minimize

    values = np.asarray(log_densities, dtype=np.float64)
    if values.ndim != 2 or not values.size:
        raise ValueError(f"log densities of shape {values.shape}: give (observations, models)")
    best = values.max(axis=1, keepdims=True)
    if not np.isfinite(best).all():
        raise ValueError("an observation has no finite density under any model")
    densities = np.exp(values - best)
    models = values.shape[1]
    weights = np.full(models, 1.0 / models)
    for _ in range(ROUGH):
        weights = weights * _gains(densities, weights)

    def loss(given: Floats) -> float:
        return float(-np.log(np.maximum(densities @ given, SMALLEST)).mean())

    fine = minimize(
        loss,
        weights,
        jac=lambda given: -_gains(densities, given),
        method="SLSQP",
        bounds=[(0.0, 1.0)] * models,
        constraints={
            "type": "eq",
            "fun": lambda given: given.sum() - 1.0,
            "jac": np.ones_like,
        },
        options={"maxiter": FINE, "ftol": 1e-12},
    )
    refined = _cleaned(np.asarray(fine.x))
    return refined if loss(refined) <= loss(weights) else _cleaned(weights)


def _gains(densities: Floats, weights: Floats) -> Floats:
    """Return by how much the mean log density rises with each weight: 1 at the best for all in use."""
    mixture = np.maximum(densities @ weights, SMALLEST)
    return np.asarray((densities / mixture[:, None]).mean(axis=0))


def _cleaned(weights: Floats) -> Floats:
    kept = np.where(weights < NONE, 0.0, weights)
    return np.asarray(kept / kept.sum())


def held_out_weights(log_densities: Floats) -> Floats:
    """Return the weights that each observation's others give, shape (observations, models).

    What a stack is scored with: weights that have seen an observation predict it too well.

    Parameters
    ----------
    log_densities : ndarray, shape (observations, models)
        At least two observations.
    """
    return np.stack(
        [
            stacking_weights(np.delete(log_densities, index, axis=0))
            for index in range(len(log_densities))
        ]
    )


def mixture_log_density(log_densities: Floats, weights: Floats) -> Floats:
    """Return the log density of a mixture at each observation, shape (observations,).

    Parameters
    ----------
    log_densities : ndarray, shape (observations, models)
    weights : ndarray, shape (models,) or (observations, models)
    """
    values = np.asarray(log_densities, dtype=np.float64)
    best = values.max(axis=1, keepdims=True)
    mixture = (np.exp(values - best) * weights).sum(axis=1)
    with np.errstate(divide="ignore"):
        return np.asarray(best[:, 0] + np.log(mixture))


def mixture_draws(quantiles: Floats, weights: Floats, draws: int) -> Floats:
    """Return draws of mixtures of distributions that are given by their quantiles, shape (draws, points).

    Parameters
    ----------
    quantiles : ndarray, shape (models, levels, points)
        At the middles of equal masses, rising.
    weights : ndarray, shape (models,)
    draws : int
        Evenly spread over each distribution: middles of equal masses again.
    """
    from bayes_cpt.inference.mixing import apportioned

    levels = (np.arange(quantiles.shape[1]) + 0.5) / quantiles.shape[1]
    parts = []
    for of_model, count in zip(quantiles, apportioned(np.asarray(weights), draws), strict=True):
        wanted = (np.arange(count) + 0.5) / max(count, 1)
        parts.append(np.stack([np.interp(wanted, levels, column) for column in of_model.T], axis=1))
    return np.concatenate(parts)


def difference(values: Floats, others: Floats) -> Difference:
    """Return the mean of values less others over observations, with its standard error.

    Parameters
    ----------
    values, others : ndarray, shape (observations,)

    Examples
    --------
    >>> difference(np.array([1.0, 3.0]), np.array([0.0, 0.0]))
    Difference(mean=2.0, error=1.0)
    """
    gaps = np.asarray(values) - np.asarray(others)
    error = gaps.std(ddof=1) / math.sqrt(gaps.size) if gaps.size > 1 else math.nan
    return Difference(float(gaps.mean()), float(error))
