"""How alike the errors of the two losses of a run are, from what a fit leaves of its own runs.

The fit takes the curves of a run on its two validation sets as independent given the law. Bands of either
loss do not hang on that; whatever combines the two does. So the correlations are estimated once from the
residuals of the fitted CPT runs, drawn to what other studies show, and used wherever losses are combined.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.inference.new_groups import as_fitted
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.model.misfit.discrepancy import ErrorCorrelation
from bayes_cpt.model.setup import fitted_setup
from bayes_cpt.model.simulate import expected_loss

type Floats = NDArray[np.float64]

DRAWS = 100
# A run's misfit is measured over its steps from this share on.
LATE = 0.75
# From here on the misfit, which moves with the logarithm of the steps, hardly moves between neighbours.
CALM = 0.3
# Correlations of other studies and what they count for, in runs and in pairs of neighbouring points: of the
# misfit .7 in the fitted lab runs and .8 in 13 that were left out (research/testbench/alike.py), of the
# fluctuation .13 in the lab runs.
MISFIT, MISFIT_RUNS = 0.75, 5.0
FLUCTUATION, FLUCTUATION_PAIRS = 0.15, 50.0
# A share that stays short of 1, where errors would cancel exactly in a difference.
MOST = 0.98

# Every forecast and decision from a fit asks for the same.
_KNOWN: "WeakKeyDictionary[Posterior, ErrorCorrelation]" = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class _Pair:
    """Residuals of a run on both validation sets over their size, shape (domains, points)."""

    steps: Floats
    misfit: Floats
    fluctuation: Floats


def error_correlation(posterior: Posterior) -> ErrorCorrelation:
    """Return how alike the errors of the two losses of a run are.

    Of the misfit: the correlation, about 0, of the mean residuals of the CPT runs over their last quarter;
    of the fluctuation: that of the changes of the residual from one late step to the next. Both are
    averaged with those of other studies on Fisher's scale, weighted by the number of runs and of changes.

    Parameters
    ----------
    posterior : Posterior

    Returns
    -------
    ErrorCorrelation
        That of other studies where no CPT run was measured on both validation sets.
    """
    posterior = as_fitted(posterior)
    if posterior not in _KNOWN:
        _KNOWN[posterior] = _estimated(posterior)
    return _KNOWN[posterior]


def _estimated(posterior: Posterior) -> ErrorCorrelation:
    pairs = list(_pairs(posterior))
    means = [pair.misfit[:, pair.steps >= LATE * pair.steps[-1]].mean(axis=1) for pair in pairs]
    changes = [np.diff(pair.fluctuation[:, pair.steps >= CALM * pair.steps[-1]]) for pair in pairs]
    return ErrorCorrelation(
        misfit=_shrunk(np.array(means).reshape(-1, 2).T, MISFIT, MISFIT_RUNS),
        fluctuation=_shrunk(
            np.concatenate([np.zeros((2, 0)), *changes], axis=1), FLUCTUATION, FLUCTUATION_PAIRS
        ),
    )


def _pairs(posterior: Posterior) -> Iterator[_Pair]:
    """Yield each CPT run that was measured on both validation sets, at the steps they share."""
    frame = posterior.frame
    setup = fitted_setup(frame, posterior.study)
    parameters = posterior.parameters(DRAWS)
    coefficients = frame.law.coefficients(parameters, np)
    points = setup.curves.points
    residual = points.loss - expected_loss(frame, parameters, setup.curves).mean(axis=0)
    scales = frame.residual_scales(points, setup.design.pretraining, parameters, coefficients, np)
    misfit, fluctuation = (
        np.sqrt((np.broadcast_to(size, (len(size), points.steps.size)) ** 2).mean(axis=0))
        for size in (scales.misfit, scales.fluctuation)
    )
    runs: dict[str, list[NDArray[np.int64]]] = {}
    for index, curve in enumerate(setup.curves.curves):
        if curve.continual:
            rows = np.flatnonzero(points.curve_index == index)
            runs.setdefault(curve.run, []).append(rows)
    for curves in runs.values():
        if len(curves) != 2:
            continue
        both = np.intersect1d(*(points.steps[rows] for rows in curves))
        if both.size:
            rows = np.stack(
                [of_curve[np.isin(points.steps[of_curve], both)] for of_curve in curves]
            )
            sizes = (np.maximum(size[rows], 1e-12) for size in (misfit, fluctuation))
            yield _Pair(both, *(residual[rows] / size for size in sizes))


def _shrunk(pairs: Floats, centre: float, weight: float) -> float:
    """Return the correlation of pairs of mean 0, shape (2, pairs), averaged with another one."""
    count = pairs.shape[1]
    sizes = (pairs**2).sum(axis=1)
    if not count or not sizes.all():
        return centre
    estimate = np.clip((pairs[0] * pairs[1]).sum() / np.sqrt(sizes.prod()), -MOST, MOST)
    total = count * np.arctanh(estimate) + weight * np.arctanh(centre)
    return float(np.clip(np.tanh(total / (count + weight)), -MOST, MOST))
