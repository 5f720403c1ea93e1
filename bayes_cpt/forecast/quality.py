"""How well the expected curves of a fit lie on measured ones, and where they do not."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayes_cpt.forecast.bands import bands
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.model.fitted_points import observed_steps
from bayes_cpt.study.runs import Run
from bayes_cpt.study.study import Study

DRAWS = 400
# Parts of a run, in order; one that is re-warmed has no other start.
STAGES = ("start", "re-warm-up", "plateau", "decay", "end of decay")
# Of its steps; of its peak learning rate.
START, PLATEAU, END = 0.05, 0.9, 0.2


def residuals(posterior: Posterior, study: Study | None = None, draws: int = DRAWS) -> pd.DataFrame:
    """Return what the expected curves leave of measured losses.

    Over the measured points of the CPT runs, after step 0; over those of the PT runs that entered the
    fit where the model knows no CPT phase.

    Parameters
    ----------
    posterior : Posterior
    study : Study, optional
        Other runs, that the fit never saw; the fitted study unless given.
    draws : int
        Posterior draws that the expected curves are averaged over.

    Returns
    -------
    DataFrame
        Columns run, domain, step, loss, residual (measured less expected; nats/token), share (of the
        run's steps), ratio (step over the last fitted one of any CPT run) and stage, of `STAGES`.
    """
    measured, frame = posterior.study if study is None else study, posterior.frame
    law = frame.spec.law
    runs = law.last_phase_runs(measured)
    kept = pd.DataFrame(
        [
            (run.name, domain, int(step))
            for run in runs
            for domain in frame.domains
            for step in observed_steps(measured, run, domain, frame.spec.residuals)
        ],
        columns=["run", "domain", "step"],
    )
    expected = bands(posterior, study, kind="expected", at=kept, draws=draws)
    means = expected[["run", "domain", "step", "mean"]]
    points = kept.merge(measured.losses, how="left").merge(means, how="left")
    last = max(run.schedule.steps for run in law.last_phase_runs(posterior.study))
    steps = points["step"]
    lengths = points["run"].map({run.name: run.schedule.steps for run in runs})
    of_runs = [
        pd.Series(stages(run, rows.to_numpy()), rows.index)
        for run in runs
        if len(rows := steps[points["run"] == run.name])
    ]
    return points.drop(columns="mean").assign(
        residual=points["loss"] - points["mean"],
        share=steps / lengths,
        ratio=steps / last,
        stage=pd.concat(of_runs),
    )


def stages(run: Run, steps: NDArray[np.int64]) -> NDArray[np.object_]:
    """Return the part of a run that each of its steps lies in, of `STAGES`.

    The re-warm-up is a rise of the learning rate at the start, whatever its length; the start of a run
    without one is its first twentieth. Then come the plateau, while the learning rate is above 0.9 of its
    peak, the decay, and its end, below a fifth of the peak.

    Parameters
    ----------
    run : Run
    steps : ndarray of int, shape (points,)
        From 1 to the run's last.
    """
    rate = run.schedule.learning_rates()[np.asarray(steps) - 1] / run.schedule.peak
    warm = run.schedule.warmup_steps
    first, last = ("re-warm-up", warm) if warm else ("start", START * run.schedule.steps)
    parts = {first: steps <= last, "end of decay": rate < END, "plateau": rate >= PLATEAU}
    return np.select(list(parts.values()), list(parts), "decay").astype(object)


def systematic(table: pd.DataFrame) -> pd.DataFrame:
    """Return where residuals are systematic: their means over runs, each run one observation.

    Parameters
    ----------
    table : DataFrame
        From `residuals`.

    Returns
    -------
    DataFrame
        Columns domain, stage, runs, mean and error (its standard error; nan for one run), size (root mean
        square of single points) and systematic: whether the mean is more than twice its error.
    """
    groups = ["domain", "stage"]
    sizes = table.assign(size=table["residual"] ** 2).groupby(groups, sort=False, observed=True)
    means = table.groupby([*groups, "run"], sort=False, observed=True)["residual"].mean()
    of_runs = means.groupby(groups, sort=False, observed=True)
    found = of_runs.agg(runs="size", mean="mean", error="sem").assign(
        size=np.sqrt(sizes["size"].mean())
    )
    return found.assign(systematic=found["mean"].abs() > 2.0 * found["error"]).reset_index()


def fit_quality(posterior: Posterior, draws: int = DRAWS) -> pd.DataFrame:
    """Return R² and mean absolute error of the expected curves, per validation set.

    All fitted runs are pooled: the spread that R² is a share of is the one between runs and along them.

    Parameters
    ----------
    posterior, draws
        As for `residuals`.

    Returns
    -------
    DataFrame
        Columns domain, phase, points, r2, mean_absolute_error (nats/token).
    """
    points = residuals(posterior, draws=draws)
    errors = points.assign(square=points["residual"] ** 2, size=points["residual"].abs())
    by_set = errors.groupby("domain", sort=False)
    spread = by_set["loss"].var(ddof=0)
    found = by_set.agg(points=("loss", "size"), mean_absolute_error=("size", "mean"))
    found.insert(0, "phase", "cpt" if posterior.frame.spec.law.continual else "pt")
    found.insert(2, "r2", 1.0 - by_set["square"].mean() / spread.where(spread > 0))
    return found.reset_index()
