"""How well the expected curves of a fit lie on measured ones."""

import pandas as pd

from bayes_cpt.forecast.bands import bands
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.model.fitted_points import observed_steps
from bayes_cpt.study.study import Study

DRAWS = 400


def residuals(posterior: Posterior, study: Study | None = None, draws: int = DRAWS) -> pd.DataFrame:
    """Return what expected curves, averages over draws, leave of measured losses: measured less expected.

    Over the measured points of the CPT runs, after step 0; over those of the PT runs that entered the fit
    where the model knows no CPT phase. Runs of another study are such as the fit never saw.
    """
    measured, frame = posterior.study if study is None else study, posterior.frame
    rows = [
        (run.name, domain, int(step))
        for run in frame.spec.law.last_phase_runs(measured)
        for domain in frame.domains
        for step in observed_steps(measured, run, domain, frame.spec.residuals)
    ]
    kept = pd.DataFrame(rows, columns=["run", "domain", "step"])
    expected = bands(posterior, study, kind="expected", at=kept, draws=draws)
    means = expected[["run", "domain", "step", "mean"]]
    points = kept.merge(measured.losses, how="left").merge(means, how="left")
    return points.drop(columns="mean").assign(residual=points["loss"] - points["mean"])


def fit_quality(posterior: Posterior, draws: int = DRAWS) -> pd.DataFrame:
    """Return R² and mean absolute error of the expected curves, per validation set.

    All fitted runs are pooled: the spread that R² is a share of is the one between runs and along them.
    Columns are domain, phase, points, r2, mean_absolute_error (nats/token).
    """
    points = residuals(posterior, draws=draws)
    errors = points.assign(square=points["residual"] ** 2, size=points["residual"].abs())
    by_set = errors.groupby("domain", sort=False)
    spread = by_set["loss"].var(ddof=0)
    found = by_set.agg(points=("loss", "size"), mean_absolute_error=("size", "mean"))
    found.insert(0, "phase", "cpt" if posterior.frame.spec.law.continual else "pt")
    found.insert(2, "r2", 1.0 - by_set["square"].mean() / spread.where(spread > 0))
    return found.reset_index()
