"""Which conclusions rest on the prior: power-scaling sensitivity of a posterior (Kallioinen et al. 2024).

Prior and likelihood are raised to powers near 1 by weighting the draws anew, and it is measured how far
that moves each quantity. What moves with the prior alone rests on it; what moves with both is pulled two
ways. Source: doi 10.1007/s11222-023-10366-5; computed by `arviz_stats`.
"""

import numpy as np
import pandas as pd

from bayes_cpt.arrays import Floats
from bayes_cpt.forecast.plans import Plan, as_plan, prepare
from bayes_cpt.identify.determination import quantities
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.model.log_densities import log_likelihoods, log_priors
from bayes_cpt.model.setup import fitted_setup
from bayes_cpt.model.simulate import expected_loss

# Of Kallioinen et al.: what moves by less is of no account.
THRESHOLD = 0.05
POWERS = (0.99, 1.01)
DRAWS = 4000
# Quantities that have nothing to do with the density, and the share of them that is taken for noise.
UNRELATED, NOISE = 100, 0.95
SEED = 0
CONFLICT = "prior-data conflict"
STRONG = "strong prior or weak likelihood"
# Priors named for one quantity.
NAMED = 2


def sensitivity(posterior: Posterior, plan: Plan = None) -> pd.DataFrame:
    """Return how sensitive every quantity of a fit is to its prior and to its data.

    Returns
    -------
    DataFrame
        One row per quantity and validation set. Columns quantity, domain, kind (``parameter``,
        ``coefficient``, ``effect`` of a typical run, see `bayes_cpt.forecast.derived`, or ``last loss`` of
        a run, whose name is the quantity), mean, sd, prior and likelihood (sensitivities), if_doubled (to
        first order, the change of the mean if the prior counted twice), diagnosis (empty, ``prior-data
        conflict`` or ``strong prior or weak likelihood``) and rests_on (the priors that move it most,
        where there is a diagnosis).
    """
    posterior.check_one_law("prior sensitivity")
    planned = as_plan(posterior, plan)
    posterior = posterior.with_new_groups(planned, planned.runs)
    parameters = posterior.parameters(DRAWS)
    chains = posterior.chains
    asked = _asked(posterior, parameters, plan)
    drawn = _by_chain(np.stack(list(asked.values())), chains)
    priors = log_priors(posterior.frame, parameters)
    single = {name: values.reshape(len(values), -1).sum(axis=1) for name, values in priors.items()}
    total = np.sum(list(single.values()), axis=0)
    setup = fitted_setup(posterior.frame, posterior.study)
    likelihood = log_likelihoods(setup, parameters).sum(axis=1)
    scores = normal_scores(drawn)
    noise = _noise(scores, [_by_chain(values, chains) for values in (total, likelihood)])
    table = pd.DataFrame(list(asked), columns=["kind", "quantity", "domain"])
    table = table[["quantity", "domain", "kind"]]
    table["mean"] = drawn.mean(axis=(1, 2))
    table["sd"] = drawn.std(axis=(1, 2), ddof=1)
    table["prior"] = power_scaling(scores, _by_chain(total, chains))
    table["likelihood"] = power_scaling(scores, _by_chain(likelihood, chains))
    deviations = total - total.mean()
    table["if_doubled"] = np.log(2.0) * drawn.reshape(len(table), -1) @ deviations / total.size
    on_prior, on_data = (
        table[name] >= np.maximum(THRESHOLD, own)
        for name, own in zip(("prior", "likelihood"), noise, strict=True)
    )
    table["diagnosis"] = np.select([on_prior & on_data, on_prior], [CONFLICT, STRONG], "")
    sensitive = np.flatnonzero(table["diagnosis"] != "")
    kept = scores[sensitive]
    moved = {name: power_scaling(kept, _by_chain(own, chains)) for name, own in single.items()}
    table["rests_on"] = ""
    table.loc[sensitive, "rests_on"] = _strongest(moved)
    return table


def power_scaling(quantities: Floats, log_density: Floats) -> Floats:
    """Return how far quantities move as a density is raised to a power near 1.

    Parameters
    ----------
    quantities : ndarray, shape (quantities, chains, draws)
    log_density : ndarray, shape (chains, draws)
        Of the part of the posterior that is scaled.

    Returns
    -------
    ndarray, shape (quantities,)
        Cumulative Jensen-Shannon distance per doubling of the power; 0.05 where a mean moves by about a
        tenth of its sd.
    """
    from arviz_stats.base import array_stats

    if np.ptp(log_density) == 0:
        return np.zeros(len(quantities))
    weights = []
    for power in POWERS:
        log_weights = array_stats.power_scale_lw(log_density, alpha=power, axis=(-2, -1))
        weights.append(np.broadcast_to(np.exp(log_weights), quantities.shape))
    return np.asarray(array_stats.power_scale_sense(quantities, *weights, *POWERS))


def _asked(
    posterior: Posterior, parameters: dict[str, Floats], plan: Plan
) -> dict[tuple[str, str, str], Floats]:
    """Return draws of everything asked about, by kind, quantity and validation set."""
    frame, found = posterior.frame, quantities(posterior, parameters)
    runs = frame.spec.law.last_phase_runs(as_plan(posterior, plan))
    last = [(run.name, d, run.schedule.steps) for run in runs for d in frame.domains]
    at = pd.DataFrame(last, columns=["run", "domain", "step"])
    curves = prepare(posterior, plan, at=at).curves(frame)
    losses = expected_loss(frame, parameters, curves)
    for i, curve in enumerate(curves.curves):
        found["last loss", curve.run, curve.domain] = losses[:, i]
    # A fixed value, or a coefficient that the law does not use, is as it is.
    return {key: value for key, value in found.items() if np.ptp(value) > 0}


def normal_scores(quantities: Floats) -> Floats:
    """Return draws by their ranks, spread as a normal distribution's, shape as given.

    So a quantity and any rising function of it are equally sensitive, and so is noise in all of them.
    """
    from scipy.special import ndtri
    from scipy.stats import rankdata

    ranks = rankdata(quantities.reshape(len(quantities), -1), axis=1)
    return np.asarray(ndtri((ranks - 0.375) / (ranks.shape[1] + 0.25)).reshape(quantities.shape))


def _by_chain(values: Floats, chains: int) -> Floats:
    return np.asarray(values.reshape(*values.shape[:-1], chains, -1))


def _noise(quantities: Floats, log_densities: list[Floats]) -> list[Floats]:
    """Return what scaling each density would seem to move quantities by that have nothing to do with it.

    The log density of many parameters varies by several units over the draws, so that weights from it
    move even what they are independent of. Normal quantities show by how much at this number of draws; a
    quantity of fewer effective draws is moved by more.
    """
    from bayes_cpt.inference.diagnostics import convergence

    generator = np.random.default_rng(SEED)
    unrelated = generator.standard_normal((UNRELATED, *quantities.shape[1:]))
    effective = np.array([convergence(values)[1] for values in quantities])
    fewer = np.sqrt(np.maximum(quantities[0].size / effective, 1.0))
    return [fewer * np.quantile(power_scaling(unrelated, own), NOISE) for own in log_densities]


def _strongest(moved: dict[str, Floats]) -> list[str]:
    """Return the priors that move each quantity most when they are scaled alone."""
    names, values = list(moved), np.stack(list(moved.values()), axis=1)
    named = []
    for distances in values:
        order = np.argsort(distances)[::-1][:NAMED]
        named.append(", ".join(names[i] for i in order if distances[i] >= THRESHOLD / 2))
    return named
