"""How alike the errors of the losses of a run are, from what a fit leaves of its own runs.

The fit takes the curves of a run on its validation sets as independent given the law. Bands of either
loss do not hang on that; whatever combines the two does. So the correlations are estimated once from the
residuals of the fitted CPT runs, drawn to what other studies show, and used wherever losses are combined.
Of several targets all pairs of sets are taken to be as alike.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations
from weakref import WeakKeyDictionary

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.model.discrepancy import ErrorCorrelation
from bayes_cpt.model.evaluate import Draws, scales_of
from bayes_cpt.model.setup import fitted_setup
from bayes_cpt.model.simulate import expected_loss

DRAWS = 100
# A run's misfit is measured over its steps from this share on.
LATE = 0.75
# From here on the misfit, which moves with the logarithm of the steps, hardly moves between neighbours.
CALM = 0.3
# Where a fluctuation is a smaller share of the largest of its curve, as it is once the run has annealed,
# what the misfit moves by between neighbours is not small beside it.
LOUD = 0.5
# Correlations of other studies and what they count for, in runs and in pairs of neighbouring points: of the
# misfit .7 in the fitted lab runs and .8 in 13 that were left out (docs/results/misfit.md), of the
# fluctuation .13 in the lab runs.
MISFIT, MISFIT_RUNS = 0.75, 5.0
FLUCTUATION, FLUCTUATION_PAIRS = 0.15, 50.0
# Sizes of residuals are no smaller, nats.
SMALLEST = 1e-12
# A share that stays short of 1, where errors would cancel exactly in a difference.
MOST = 0.98

# Every forecast and decision from a fit asks for the same.
_KNOWN: WeakKeyDictionary[Posterior, ErrorCorrelation] = WeakKeyDictionary()


def error_correlation(posterior: Posterior) -> ErrorCorrelation:
    """Return how alike the errors of any two losses of a run are; as in other studies where no run tells.

    Of the misfit: the correlation, about 0, of the mean residuals of the CPT runs over their last quarter;
    of the fluctuation: that of the changes of the residual from one late step to the next, before it has
    annealed away. Both are averaged with those of other studies on Fisher's scale, weighted by the number
    of runs and of changes.
    """
    posterior = posterior.as_fitted
    if posterior not in _KNOWN:
        _KNOWN[posterior] = _estimated(posterior)
    return _KNOWN[posterior]


def _estimated(posterior: Posterior) -> ErrorCorrelation:
    means, changes, weights = [], [], []
    for share, misfit, fluctuation, weight in _pairs(posterior):
        means.append(misfit[:, share >= LATE].mean(axis=1, keepdims=True))
        moved = np.diff(fluctuation[:, share >= CALM])
        changes.append(moved[:, np.isfinite(moved).all(axis=0)])
        weights.append(weight)
    # Correlated alike, so many sets cannot be more unlike.
    least = -MOST / max(len(posterior.frame.domains) - 1, 1)
    return ErrorCorrelation(
        misfit=max(_shrunk(means, weights, MISFIT, MISFIT_RUNS), least),
        fluctuation=max(_shrunk(changes, weights, FLUCTUATION, FLUCTUATION_PAIRS), least),
    )


def _pairs(posterior: Posterior) -> Iterator[tuple[Floats, Floats, Floats, float]]:
    """Yield residuals over their size on each two validation sets that a CPT run was measured on.

    These are the steps that the two share, over the last; misfit and fluctuation there, shape (2, steps);
    and how many independent pairs of sets these stand for.
    """
    frame = posterior.frame
    setup = fitted_setup(frame, posterior.study)
    parameters = posterior.parameters(DRAWS)
    points, every = setup.curves.points, setup.design.rows
    residual = points.loss - expected_loss(frame, parameters, setup.curves).mean(axis=0)
    scales = scales_of(setup.curves, Draws.of(frame, parameters, points.form))
    sizes = (scales.misfit, scales.fluctuation)
    misfit, fluctuation = (np.sqrt((size**2).mean(axis=0)) for size in sizes)
    largest = np.array([fluctuation[rows].max() for rows in every])[points.curve_index]
    standard = residual / np.maximum(fluctuation, SMALLEST)
    loud = np.where(fluctuation >= LOUD * largest, standard, np.nan)
    of_run: dict[str, list[slice]] = {}
    for curve, rows in zip(setup.curves.curves, every, strict=True):
        if curve.continual:
            of_run.setdefault(curve.run, []).append(rows)
    for curves in of_run.values():
        # n sets that are nearly the same tell as much as 2(n - 1)/n independent pairs, the least.
        weight = 4.0 / len(curves) ** 2
        for one, other in combinations(curves, 2):
            measured = points.steps[one], points.steps[other]
            steps, first, second = np.intersect1d(*measured, return_indices=True)
            if steps.size:
                both = np.stack([one.start + first, other.start + second])
                size = np.maximum(misfit[both], SMALLEST)
                yield steps / steps[-1], residual[both] / size, loud[both], weight


def _shrunk(
    pairs: Sequence[Floats], weights: Sequence[float], centre: float, weight: float
) -> float:
    """Return the correlation of pairs of mean 0, shape (2, pairs) each, averaged with another one."""
    found = np.concatenate([np.zeros((2, 0)), *pairs], axis=1)
    each = np.repeat(weights, [own.shape[1] for own in pairs])
    count = each.sum()
    sizes = (each * found**2).sum(axis=1)
    if not count or not sizes.all():
        return centre
    estimate = np.clip((each * found[0] * found[1]).sum() / np.sqrt(sizes.prod()), -MOST, MOST)
    total = count * np.arctanh(estimate) + weight * np.arctanh(centre)
    return float(np.clip(np.tanh(total / (count + weight)), -MOST, MOST))
