"""How well the expected curves of a fit lie on measured ones, and where they do not."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.forecast.bands import bands
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.model.fitted_points import observed_steps
from bayes_cpt.study.runs import Run
from bayes_cpt.study.study import Study

if TYPE_CHECKING:
    import pandas as pd

DRAWS = 400
# Parts of a run, in order; one that is re-warmed has no other start.
STAGES = ("start", "re-warm-up", "plateau", "decay", "end of decay")
# Of its steps; of its peak learning rate.
START, PLATEAU, END = 0.05, 0.9, 0.2


def residuals(
    posterior: Posterior, study: Study | None = None, draws: int = DRAWS
) -> "pd.DataFrame":
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
    import pandas as pd

    measured, frame = posterior.study if study is None else study, posterior.frame
    continual = frame.spec.law.continual
    runs = measured.continual_runs if continual else measured.pretraining_runs
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
    kept = kept.merge(expected[[*kept, "mean"]], how="left").rename(columns={"mean": "expected"})
    fitted = posterior.study.continual_runs if continual else posterior.study.pretraining_runs
    last = max(run.schedule.steps for run in fitted)
    parts = []
    for (name, domain), points in kept.groupby(["run", "domain"], sort=False):
        run, steps = measured.run(str(name)), points["step"].to_numpy()
        own_steps, losses = measured.curve(run.name, str(domain))
        loss = losses[np.searchsorted(own_steps, steps)]
        parts.append(
            points.drop(columns="expected").assign(
                loss=loss,
                residual=loss - points["expected"],
                share=steps / run.schedule.steps,
                ratio=steps / last,
                stage=stages(run, steps),
            )
        )
    return pd.concat(parts, ignore_index=True)


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
    stage_names = np.full(len(steps), "decay", dtype=object)
    stage_names[rate >= PLATEAU] = "plateau"
    stage_names[rate < END] = "end of decay"
    warm = run.schedule.warmup_steps
    if warm:
        stage_names[steps <= warm] = "re-warm-up"
    else:
        stage_names[steps <= START * run.schedule.steps] = "start"
    return stage_names


def systematic(table: "pd.DataFrame", by: str = "stage") -> "pd.DataFrame":
    """Return where residuals are systematic: their means over runs, each run one observation.

    Parameters
    ----------
    table : DataFrame
        From `residuals`.
    by : str
        A column to group by beside the validation set.

    Returns
    -------
    DataFrame
        Columns domain, `by`, runs, mean and error (its standard error; nan for one run), size (root mean
        square of single points) and systematic: whether the mean is more than twice its error.
    """
    import pandas as pd

    rows = []
    for (domain, part), points in table.groupby(["domain", by], sort=False, observed=True):
        means = points.groupby("run")["residual"].mean().to_numpy()
        error = means.std(ddof=1) / np.sqrt(means.size) if means.size > 1 else np.nan
        rows.append(
            {
                "domain": domain,
                by: part,
                "runs": means.size,
                "mean": float(means.mean()),
                "error": float(error),
                "size": float(np.sqrt(np.mean(points["residual"] ** 2))),
                "systematic": bool(abs(means.mean()) > 2.0 * error),
            }
        )
    return pd.DataFrame(rows)


def fit_quality(posterior: Posterior, draws: int = DRAWS) -> "pd.DataFrame":
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
    import pandas as pd

    rows = []
    for domain, points in residuals(posterior, draws=draws).groupby("domain", sort=False):
        loss, error = points["loss"].to_numpy(), points["residual"].to_numpy()
        spread = np.sum((loss - loss.mean()) ** 2)
        rows.append(
            {
                "domain": domain,
                "phase": "cpt" if posterior.frame.spec.law.continual else "pt",
                "points": loss.size,
                "r2": float(1.0 - np.sum(error**2) / spread) if spread else float("nan"),
                "mean_absolute_error": float(np.abs(error).mean()),
            }
        )
    return pd.DataFrame(rows)
