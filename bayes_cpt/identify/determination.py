"""What a fit leaves undetermined: what rests on the prior, what it moves with, and which run would tell."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.forecast.derived import derived_quantities, tried
from bayes_cpt.identify.identify import IDENTIFIED, expected, partners
from bayes_cpt.identify.information import FreeParameters
from bayes_cpt.inference.posterior import PRIOR_DRAWS, Posterior, contraction
from bayes_cpt.model.points import Curves
from bayes_cpt.model.priors.draws import draw_priors

if TYPE_CHECKING:
    import pandas as pd

type Floats = NDArray[np.float64]
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
        what further runs would tell is computed around the posterior.
    """
    import pandas as pd

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
    tails = [0.5 - interval / 2, 0.5 + interval / 2]
    differ = tried(frame, study)
    rows = []
    for index, label in enumerate(labels):
        kind, quantity, domain = label
        kept = contraction(priors[label], draws[label])
        is_tried = differ[quantity] if kind == "effect" else True
        lower, upper = np.quantile(draws[label], tails)
        settled = is_tried and kept >= IDENTIFIED
        rows.append(
            {
                "quantity": quantity,
                "domain": domain,
                "kind": kind,
                "mean": float(draws[label].mean()),
                "sd": float(draws[label].std(ddof=1)),
                "lower": float(lower),
                "upper": float(upper),
                "contraction": kept,
                "identified": kept >= IDENTIFIED,
                "tried": is_tried,
                "moves_with": partners(alike[index], labels, index),
                "advice": "" if settled else str(advised.loc[label, "advice"]),
                "with_advice": float(advised.loc[label, "with_advice"]),
            }
        )
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
    frame, study = posterior.frame, posterior.study
    runs = study.runs if frame.spec.law.continual else study.pretraining_runs
    return frame.curves(study, lambda run, d: frame.fitted_steps(study, run, d), runs)


def _places(free: FreeParameters, parameters: dict[str, Floats]) -> Floats:
    draws = next(iter(parameters.values())).shape[0]
    kept = np.unique(np.linspace(0, draws - 1, PLACES).round().astype(int))
    return free.places({name: value[kept] for name, value in parameters.items()})
