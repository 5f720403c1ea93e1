"""What a fit leaves undetermined: what rests on the prior, what it moves with, and which run would tell."""

from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.forecast.derived import derived_quantities, effects_of, tried
from bayes_cpt.identify.identify import IDENTIFIED, expected, partners
from bayes_cpt.identify.information import FreeParameters
from bayes_cpt.inference.posterior import PRIOR_DRAWS, Posterior, contraction
from bayes_cpt.model.points import Curves
from bayes_cpt.model.priors.draws import draw_priors
from bayes_cpt.study.trunks import with_found_branches

if TYPE_CHECKING:
    import pandas as pd

type Label = tuple[str, str, str]

# Draws that the law is linearised at, to find the run that would tell most.
PLACES = 5
SEED = 0


def determination(posterior: Posterior, interval: float = 0.9) -> "pd.DataFrame":
    """Return what the runs of a fit have determined of the law and of the effects of a typical run.

    Parameters
    ----------
    posterior : Posterior
    interval : float
        Mass of the central credible interval.

    Returns
    -------
    DataFrame
        One row per coefficient, parameter of the law and effect (see `bayes_cpt.forecast.derived`), and
        validation set. Columns quantity, domain, kind, mean, sd, lower, upper, contraction (see
        `bayes_cpt.inference.posterior.contraction`), identified, tried, moves_with (rank correlations above
        0.7 in the posterior), advice and with_advice, as in `bayes_cpt.identify.identify.identifiability`;
        what further runs would tell is computed around the posterior. Of a stack the effects alone, over
        the draws of all laws, with the advice that its heaviest law gives.
    """
    import pandas as pd

    if posterior.stacked:
        return _of_stack(posterior, interval)

    frame, study = posterior.frame, posterior.study
    free = FreeParameters(frame)
    parameters = posterior.parameters()
    draws = _quantities(posterior, parameters)
    priors = _quantities(posterior, draw_priors(frame, PRIOR_DRAWS, SEED))
    advised = expected(
        free, study, _fitted(posterior), _places(free, parameters), coefficients=True
    )
    advised = advised.set_index(["kind", "quantity", "domain"])
    labels = [label for label in draws if label in advised.index]
    ranks = np.argsort(np.argsort(np.stack([draws[label] for label in labels]), axis=1), axis=1)
    alike = np.atleast_2d(np.corrcoef(ranks))
    differ = tried(frame, study)
    rows = []
    for index, label in enumerate(labels):
        kind, quantity, domain = label
        was_tried = differ[quantity] if kind == "effect" else True
        estimate = _estimate(draws[label], priors[label], interval)
        settled = was_tried and estimate["identified"]
        rows.append(
            {
                "quantity": quantity,
                "domain": domain,
                "kind": kind,
                **estimate,
                "tried": was_tried,
                "moves_with": partners(alike[index], labels, index),
                "advice": "" if settled else str(advised.loc[label, "advice"]),
                "with_advice": float(advised.loc[label, "with_advice"]),
            }
        )
    return pd.DataFrame(rows)


def _estimate(draws: Floats, prior: Floats, interval: float) -> dict[str, Any]:
    kept = contraction(prior, draws)
    lower, upper = np.quantile(draws, [0.5 - interval / 2, 0.5 + interval / 2])
    return {
        "mean": float(draws.mean()),
        "sd": float(draws.std(ddof=1)),
        "lower": float(lower),
        "upper": float(upper),
        "contraction": kept,
        "identified": kept >= IDENTIFIED,
    }


def _of_stack(posterior: Posterior, interval: float) -> "pd.DataFrame":
    import pandas as pd

    heaviest = posterior.laws[int(np.argmax(posterior.weights))]
    advised = determination(heaviest, interval)
    study, domains = posterior.study, posterior.frame.domains
    drawn = [
        derived_quantities(law.frame, study, law.parameters(count))
        for law, count in posterior.shares()
    ]
    before = [
        derived_quantities(law.frame, study, draw_priors(law.frame, count or PRIOR_DRAWS, SEED))
        for law, count in posterior.shares(PRIOR_DRAWS)
    ]
    trials = {effect.name: effect.trial for effect in effects_of(heaviest.frame)}
    rows = []
    for row in advised[advised["kind"] == "effect"].to_dict("records"):
        name, place = row["quantity"], domains.index(row["domain"])
        if all(name in quantities for quantities in drawn):
            draws, prior = (
                np.concatenate([quantities[name][:, place] for quantities in parts])
                for parts in (drawn, before)
            )
            estimate = _estimate(draws, prior, interval)
            settled = estimate["identified"] and row["tried"]
            # What the heaviest law has settled, another may leave open.
            advice = "" if settled else row["advice"] or trials[name]
            rows.append(row | estimate | {"moves_with": [], "advice": advice})
    return pd.DataFrame(rows)


def _quantities(posterior: Posterior, parameters: dict[str, Floats]) -> dict[Label, Floats]:
    """Return draws of the law's coefficients, parameters and effects, by kind, name and validation set."""
    frame = posterior.frame
    # The prior of a coefficient on a ridge overflows in its far tail, which quartiles ignore.
    with np.errstate(over="ignore", invalid="ignore"):
        asked = {
            "coefficient": frame.law.coefficients(parameters, np),
            "parameter": {name: parameters[name] for name in frame.law.parameters()},
            "effect": derived_quantities(frame, posterior.study, parameters),
        }
    by_label = {}
    for kind, quantities in asked.items():
        for name, value in quantities.items():
            members = frame.domains if kind == "effect" else posterior.members(name)
            for i, member in enumerate(members):
                by_label[kind, name, member] = value[:, i] if value.ndim == 2 else value
    return by_label


def _fitted(posterior: Posterior) -> Curves:
    frame, study = posterior.frame, with_found_branches(posterior.study)
    runs = study.runs if frame.spec.law.continual else study.pretraining_runs
    return frame.curves(study, lambda run, d: frame.fitted_steps(study, run, d), runs)


def _places(free: FreeParameters, parameters: dict[str, Floats]) -> Floats:
    draws = next(iter(parameters.values())).shape[0]
    kept = np.unique(np.linspace(0, draws - 1, PLACES).round().astype(int))
    return free.places({name: value[kept] for name, value in parameters.items()})
