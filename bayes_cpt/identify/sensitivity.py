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
    """Return how sensitive every quantity of a fit is to its prior and to its data, by validation set.

    Quantities are parameters, coefficients, effects of a typical run and last losses. if_doubled is, to
    first order, the change of the mean if the prior counted twice; where there is a diagnosis, rests_on has
    the priors that move it most.
    """
    posterior.check_one_law("prior sensitivity")
    planned = as_plan(posterior, plan)
    posterior = posterior.with_new_groups(planned, planned.runs)
    parameters = posterior.parameters(DRAWS)
    asked = _asked(posterior, parameters, plan)
    drawn = np.stack(list(asked.values()))
    priors = log_priors(posterior.frame, parameters)
    single = {name: values.reshape(len(values), -1).sum(axis=1) for name, values in priors.items()}
    setup = fitted_setup(posterior.frame, posterior.study)
    densities = {
        "prior": np.sum(list(single.values()), axis=0),
        "likelihood": log_likelihoods(setup, parameters).sum(axis=1),
    }
    scores = normal_scores(drawn)
    table = pd.DataFrame(list(asked), columns=["kind", "quantity", "domain"])
    table = table[["quantity", "domain", "kind"]]
    table["mean"] = drawn.mean(axis=1)
    table["sd"] = drawn.std(axis=1, ddof=1)
    noise, moves = _noise(scores, posterior.chains, list(densities.values())), []
    for (name, density), least in zip(densities.items(), noise, strict=True):
        table[name] = power_scaling(scores, density)
        moves.append(table[name] >= np.maximum(THRESHOLD, least))
    deviations = densities["prior"] - densities["prior"].mean()
    table["if_doubled"] = np.log(2.0) * drawn @ deviations / deviations.size
    table["diagnosis"] = np.select([moves[0] & moves[1], moves[0]], [CONFLICT, STRONG], "")
    sensitive = np.flatnonzero(table["diagnosis"] != "")
    moved = {name: power_scaling(scores[sensitive], own) for name, own in single.items()}
    table["rests_on"] = ""
    table.loc[sensitive, "rests_on"] = _strongest(moved)
    return table


def power_scaling(quantities: Floats, log_density: Floats) -> Floats:
    """Return how far quantities, (quantities, draws), move as a density is raised to a power near 1.

    Cumulative Jensen-Shannon distance per doubling of the power; 0.05 where a mean moves by about a tenth
    of its sd.
    """
    from arviz_stats.base import array_stats

    if np.ptp(log_density) == 0:
        return np.zeros(len(quantities))
    # As of one chain.
    alike = quantities[:, None]
    weights = [
        np.broadcast_to(np.exp(array_stats.power_scale_lw(log_density, alpha=power)), alike.shape)
        for power in POWERS
    ]
    return np.asarray(array_stats.power_scale_sense(alike, *weights, *POWERS))


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
    """Return draws by their ranks, spread as a normal distribution's, shape (quantities, draws).

    So a quantity and any rising function of it are equally sensitive, and so is noise in all of them.
    """
    from scipy.special import ndtri
    from scipy.stats import rankdata

    ranks = rankdata(quantities, axis=1)
    return np.asarray(ndtri((ranks - 0.375) / (ranks.shape[1] + 0.25)))


def _noise(quantities: Floats, chains: int, log_densities: list[Floats]) -> list[Floats]:
    """Return what scaling each density would seem to move quantities by that have nothing to do with it.

    The log density of many parameters varies by several units over the draws, so that weights from it
    move even what they are independent of. Normal quantities show by how much at this number of draws; a
    quantity of fewer effective draws is moved by more.
    """
    from bayes_cpt.inference.diagnostics import convergence

    generator = np.random.default_rng(SEED)
    draws = quantities.shape[1]
    unrelated = generator.standard_normal((UNRELATED, draws))
    effective = np.array([convergence(own.reshape(chains, -1))[1] for own in quantities])
    fewer = np.sqrt(np.maximum(draws / effective, 1.0))
    return [fewer * np.quantile(power_scaling(unrelated, own), NOISE) for own in log_densities]


def _strongest(moved: dict[str, Floats]) -> list[str]:
    """Return the priors that move each quantity most when they are scaled alone."""
    names, values = list(moved), np.stack(list(moved.values()), axis=1)
    named = []
    for distances in values:
        order = np.argsort(distances)[::-1][:NAMED]
        named.append(", ".join(names[i] for i in order if distances[i] >= THRESHOLD / 2))
    return named
