"""The posterior given what a running job has shown: its draws weighed anew, or a full refit.

Draws of the fit are weighed by the density of the run's points and resampled. Where that rests on a few
draws only, the run is added to the study and all is fitted again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.inference.fitting import fit
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.model.log_densities import log_densities
from bayes_cpt.study.runs import Run
from bayes_cpt.study.study import Study

type Points = Mapping[int, Mapping[str, float]]

# Effective draws below which weights say little: that of the diagnostics contract.
FEWEST_EFFECTIVE = 400.0


@dataclass(frozen=True, eq=False)
class Renewal:
    """A posterior that knows of a run's points.

    Parameters
    ----------
    posterior : Posterior
        Its study has the run.
    effective : float
        Draws that the weighing was worth, by Kish's formula.
    refitted : bool
    """

    posterior: Posterior
    effective: float
    refitted: bool


def renewed(
    posterior: Posterior,
    run: Run,
    plan: Study,
    points: Points,
    *,
    seed: int = 0,
    fewest: float = FEWEST_EFFECTIVE,
    draws: int | None = None,
) -> Renewal:
    """Return the posterior given a run's points.

    Parameters
    ----------
    posterior : Posterior
        Of one law.
    run : Run
        Of the plan.
    plan : Study
        With the losses of its base.
    points : mapping of int to mapping of str to float
        Measured losses by step and validation set, nats/token.
    seed : int
    fewest : float
        Effective draws below which all is fitted again.
    draws : int, optional
        Draws a chain of a refit, as `bayes_cpt.inference.fitting.fit` takes them.
    """
    study = with_run(posterior.study, run, plan, points)
    if _is_measured(posterior.study, run):
        # The draws know of the run already: weighed by its points they would know them twice.
        return Renewal(fit(study, posterior.frame.spec, posterior.seed, draws=draws), 0.0, True)
    weights = run_weights(posterior, run, study)
    effective = float(1.0 / (weights**2).sum())
    if effective >= fewest:
        return Renewal(_resampled(posterior, study, weights, seed), effective, refitted=False)
    again = fit(study, posterior.frame.spec, posterior.seed, draws=draws)
    return Renewal(again, effective, refitted=True)


def with_run(study: Study, run: Run, plan: Study, points: Points) -> Study:
    """Return a study with a run of a plan and its points.

    Parameters
    ----------
    study : Study
    run : Run
    plan : Study
    points : mapping of int to mapping of str to float
    """
    import pandas as pd

    known = {base.name for base in study.bases}
    rows = [
        (run.name, step, domain, loss)
        for step, losses in sorted(points.items())
        for domain, loss in losses.items()
    ]
    start = plan.losses[(plan.losses["run"] == run.name) & (plan.losses["step"] == 0)]
    others = study.losses[study.losses["run"] != run.name]
    told = pd.DataFrame(rows, columns=list(others.columns))
    return replace(
        study,
        bases=(*study.bases, *(base for base in plan.bases if base.name not in known)),
        runs=(*(other for other in study.runs if other.name != run.name), run),
        losses=pd.concat([others, start, told], ignore_index=True),
    )


def _is_measured(study: Study, run: Run) -> bool:
    of_run = study.losses["run"] == run.name
    return bool((of_run & (study.losses["step"] > 0)).any())


def run_weights(posterior: Posterior, run: Run, study: Study) -> Floats:
    """Return how likely each draw is given a run's points, shape (draws,); they add up to 1.

    Parameters
    ----------
    posterior : Posterior
        Of one law, that did not see the run.
    run : Run
    study : Study
        With the run and its points.
    """
    frame = posterior.frame
    curves = frame.curves(
        study, lambda its_run, domain: frame.fitted_steps(study, its_run, domain), [run]
    )
    density = log_densities(frame, posterior.parameters(), curves).sum(axis=1)
    weights = np.exp(density - density.max())
    return np.asarray(weights / weights.sum())


def _resampled(posterior: Posterior, study: Study, weights: Floats, seed: int) -> Posterior:
    """Return draws as often as their weights say, systematically (Kitagawa 1996)."""
    import xarray as xr

    generator = np.random.default_rng(seed)
    count = weights.size
    places = (np.arange(count) + generator.random()) / count
    chosen = generator.permutation(np.minimum(np.searchsorted(weights.cumsum(), places), count - 1))
    draws = posterior.tree["posterior"].to_dataset()

    def taken(values: "xr.DataArray") -> "xr.DataArray":
        if values.dims[:2] != ("chain", "draw"):
            return values
        flat = values.to_numpy().reshape(count, *values.shape[2:])
        return values.copy(data=flat[chosen].reshape(values.shape))

    tree = posterior.tree.copy()
    tree["posterior"] = xr.DataTree(draws.map(taken, keep_attrs=True))
    return Posterior(tree, study, posterior.frame)
