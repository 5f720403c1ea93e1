"""Laws compared without a refit: curves left out by Pareto-smoothed importance sampling.

Source: Vehtari, Gelman and Gabry 2017, doi:10.1007/s11222-016-9696-4; computed by ArviZ. A curve is one
observation, as its points are not independent. It answers an easier question than leaving out a run, whose
other curve stays; and it holds only where no curve moves the posterior much (Pareto k).
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.validate.comparison.stacking import Difference, difference, stacking_weights

LIKELIHOOD = "log_likelihood"


@dataclass(frozen=True, eq=False)
class CurveLoo:
    """Expected log densities of curves that were left out, by importance sampling.

    Parameters
    ----------
    laws : tuple of str
    curves : tuple of str
        Run and validation set of each.
    log_densities : ndarray, shape (curves, laws)
    pareto_k : ndarray, shape (curves, laws)
    highest_k : float
        Above it an estimate is not to be trusted.
    """

    laws: tuple[str, ...]
    curves: tuple[str, ...]
    log_densities: Floats
    pareto_k: Floats
    highest_k: float

    @classmethod
    def of(cls, fits: Mapping[str, Posterior]) -> "Self | str":
        """Return the estimate from some fits of one study, or in words why there is none.

        Parameters
        ----------
        fits : mapping of str to Posterior
        """
        import arviz as az

        trees = {name: fit.tree for name, fit in fits.items()}
        lacking = [name for name, tree in trees.items() if LIKELIHOOD not in tree.children]
        if lacking:
            return f"the fit of {lacking[0]} holds no log likelihoods"
        first, *others = trees.values()
        if any(_points(tree) != _points(first) for tree in others):
            return (
                "the laws leave out different points of the runs, so that densities do not compare"
            )
        with warnings.catch_warnings():
            # A large Pareto k is said in `doubtful`.
            warnings.simplefilter("ignore", UserWarning)
            estimates = [
                az.loo(tree, pointwise=True, var_name="loss", reff=1.0) for tree in trees.values()
            ]
        return cls(
            laws=tuple(fits),
            curves=tuple(str(name) for name in first[LIKELIHOOD]["curve"].to_numpy()),
            log_densities=np.stack([_values(estimate.elpd_i) for estimate in estimates], axis=1),
            pareto_k=np.stack([_values(estimate.pareto_k) for estimate in estimates], axis=1),
            highest_k=float(min(estimate.good_k for estimate in estimates)),
        )

    @property
    def doubtful(self) -> dict[str, int]:
        """Curves with too large a Pareto k, by law."""
        counts = (self.pareto_k > self.highest_k).sum(axis=0)
        return {name: int(count) for name, count in zip(self.laws, counts, strict=True)}

    @property
    def holds(self) -> bool:
        """Whether the estimate can be trusted for every curve and law."""
        return not any(self.doubtful.values())

    @cached_property
    def weights(self) -> dict[str, float]:
        """Stacking weights over curves."""
        weights = stacking_weights(self.log_densities)
        return dict(zip(self.laws, weights.tolist(), strict=True))

    @cached_property
    def of_runs(self) -> Floats:
        """Sums over the curves of each run, shape (runs, laws)."""
        runs = [curve.rpartition(", ")[0] for curve in self.curves]
        names = list(dict.fromkeys(runs))
        places = np.array([names.index(run) for run in runs])
        return np.stack([self.log_densities[places == i].sum(axis=0) for i in range(len(names))])

    @property
    def best(self) -> str:
        """The law with the largest mean log density."""
        return self.laws[int(self.log_densities.sum(axis=0).argmax())]

    def differences(self) -> dict[str, Difference]:
        """Return the mean difference per run to the best law, each run one observation."""
        best = self.of_runs[:, self.laws.index(self.best)]
        return {
            name: difference(self.of_runs[:, place], best) for place, name in enumerate(self.laws)
        }


def _points(tree: Any) -> list[tuple[str, str, int]]:
    """Return which points were fitted."""
    where = tree["observed_data"]
    names = ("run", "domain", "step")
    return list(zip(*(where[name].to_numpy().tolist() for name in names), strict=True))


def _values(array: Any) -> Floats:
    return np.asarray(array, dtype=np.float64).ravel()
