"""How well the expected curves of a fit lie on the curves that it was fitted to."""

from typing import TYPE_CHECKING

import numpy as np

from bayes_cpt.points import observed_steps
from bayes_cpt.posterior import Posterior

if TYPE_CHECKING:
    import pandas as pd

DRAWS = 400


def fit_quality(posterior: Posterior, draws: int = DRAWS) -> "pd.DataFrame":
    """Return R² and mean absolute error of the expected curves, per validation set.

    Over the measured points of the CPT runs, after step 0; over those of the PT runs that entered the
    fit where the model knows no CPT phase. All runs are pooled: the spread that R² is a share of is
    the one between runs and along them.

    Parameters
    ----------
    posterior : Posterior
    draws : int
        Posterior draws that the expected curves are averaged over.

    Returns
    -------
    DataFrame
        Columns domain, phase, points, r2, mean_absolute_error (nats/token).
    """
    import pandas as pd

    study, frame = posterior.study, posterior.frame
    continual = frame.spec.law.continual
    runs = study.continual_runs if continual else study.pretraining_runs
    skip = frame.spec.residuals.skip_pretraining
    kept = pd.DataFrame(
        [
            (run.name, domain, int(step))
            for run in runs
            for domain in frame.domains
            for step in observed_steps(study, run, domain, skip)
        ],
        columns=["run", "domain", "step"],
    )
    dataset = posterior.predict(kind="expected", at=kept, draws=draws)
    expected = dataset["expected"].mean(("chain", "draw"))
    rows = []
    for domain, points in kept.groupby("domain", sort=False):
        predicted, measured = [], []
        for name, steps in points.groupby("run", sort=False)["step"]:
            own_steps, losses = study.curve(str(name), str(domain))
            measured.append(losses[np.searchsorted(own_steps, steps.to_numpy())])
            curve = expected.sel(run=name, domain=domain, step=steps.to_numpy())
            predicted.append(curve.to_numpy())
        loss = np.concatenate(measured)
        error = loss - np.concatenate(predicted)
        spread = np.sum((loss - loss.mean()) ** 2)
        rows.append(
            {
                "domain": domain,
                "phase": "cpt" if continual else "pt",
                "points": loss.size,
                "r2": float(1.0 - np.sum(error**2) / spread) if spread else float("nan"),
                "mean_absolute_error": float(np.abs(error).mean()),
            }
        )
    return pd.DataFrame(rows)
