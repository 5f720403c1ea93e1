"""By what share of itself the law's slope is off beyond the steps that were fitted, from public studies.

From the repository's root; ten minutes of a core::

    PYTHONPATH=research python -m testbench.beyond data/public

Each study of pre-training is fitted as `testbench.public` fits it, with bands that do not widen beyond the
fitted steps. What its further runs then end off by, over what the law's slope promises them, tells its
share. The shares of studies are lognormal, and what is expected of a further one is the prior of
`extrapolation_pt`: by all studies, and by all without each family of them. Runs of a study are off
together, so each study tells as much as one run.
"""

import sys
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from bayes_cpt import fit
from bayes_cpt.arrays import Floats
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.model.priors import LogNormal, Prior
from bayes_cpt.model.spec import ModelSpec, read_spec
from bayes_cpt.study.study import Study
from bayes_cpt.validate.folds import Fold
from bayes_cpt.validate.tasks import Pool, task_seed
from testbench.public import Group, Models, family, pretraining_suite
from testbench.report import markdown_table, options_of

# Ends nearer to the fitted steps than so many e-folds tell of other things.
NEAREST = 0.02
# Of the shares that are looked at, and how many: evenly spread in their logarithm.
LOWEST, HIGHEST, LOOKED_AT = 1e-4, 3.0, 400
# Medians and sds of the log of the shares of studies. Half-normal of sd 1 is the prior of the latter, flat
# that of the log of the former.
MEDIANS = np.geomspace(1e-3, 0.5, 60)
SPREADS = np.linspace(0.05, 3.0, 60)
MASS = 0.9
SHARE = "extrapolation_pt"
NOTHING = "none"


def without_widening(spec: ModelSpec) -> ModelSpec:
    """Return a model whose bands do not widen beyond the steps that were fitted."""
    residuals = spec.residuals.model_copy(update={"extrapolation": False})
    priors = {name: prior for name, prior in spec.priors.items() if name != SHARE}
    return spec.model_copy(update={"residuals": residuals, "priors": priors})


def ends(posterior: Posterior, plan: Study, measured: pd.DataFrame) -> pd.DataFrame:
    """Return how far off further runs end, those that end beyond the fitted steps.

    Returns
    -------
    DataFrame
        Columns run, domain, step, loss, error and sd (measured less expected and what is stated of it,
        nats/token), promised (what the law's slope says that the run gains beyond the fitted steps,
        nats/token).
    """
    last = measured.loc[measured.groupby("run")["step"].idxmax(), ["run", "domain", "step", "loss"]]
    folds = np.log(last["step"] / posterior.frame.studied_pt)
    slope = float(posterior.parameters()["reference_slope"].mean())
    last = last.assign(promised=slope * folds)[folds > NEAREST].reset_index(drop=True)
    if last.empty:
        return last.assign(error=0.0, sd=0.0)
    forecast = posterior.predict(plan, kind="new_run", at=last[["run", "domain", "step"]])["loss"]
    drawn = np.stack(
        [
            forecast.sel(run=row.run, domain=row.domain, step=row.step).to_numpy().ravel()
            for row in last.itertuples()
        ]
    )
    return last.assign(error=last["loss"] - drawn.mean(axis=1), sd=drawn.std(axis=1))


def log_likelihood(own: pd.DataFrame, shares: Floats) -> Floats:
    """Return how likely the ends of a study are under each of some shares, its log: of a run on average.

    Parameters
    ----------
    own : DataFrame
        From `ends`.
    shares : ndarray, shape (shares,)
    """
    error, sd, promised = (own[name].to_numpy() for name in ("error", "sd", "promised"))
    sds = np.hypot(sd[:, None], shares * promised[:, None])
    return np.asarray(stats.norm.logpdf(error[:, None], 0.0, sds).mean(axis=0))


def learnt_share(studies: Collection[pd.DataFrame]) -> LogNormal:
    """Return what is expected of the share of a further study: its median and central 90 % interval."""
    places = np.linspace(np.log(LOWEST), np.log(HIGHEST), LOOKED_AT)
    likely = [log_likelihood(own, np.exp(places)) for own in studies]
    told = [np.exp(own - own.max()) for own in likely]
    means, spreads = (grid.ravel() for grid in np.meshgrid(np.log(MEDIANS), SPREADS))
    populations = stats.norm.pdf(places, means[:, None], spreads[:, None])
    populations /= populations.sum(axis=1, keepdims=True)
    log_weights = stats.halfnorm.logpdf(spreads)
    # Of a population far from a study nothing is left.
    with np.errstate(divide="ignore"):
        log_weights = log_weights + sum(np.log(populations @ own) for own in told)
    further = np.exp(log_weights - log_weights.max()) @ populations
    reached = np.cumsum(further) / further.sum()
    lower, middle, upper = np.interp([0.5 - MASS / 2, 0.5, 0.5 + MASS / 2], reached, places)
    sigma = (upper - lower) / (2.0 * stats.norm.ppf(0.5 + MASS / 2))
    return LogNormal(distribution="lognormal", median=float(np.exp(middle)), sigma=float(sigma))


def with_share(spec: ModelSpec, share: LogNormal) -> ModelSpec:
    """Return a model with another prior of the share."""
    prior = Prior(reason="Learnt from the ends of held-out runs.", every=share)
    return spec.model_copy(update={"priors": spec.priors | {SHARE: prior}})


def shares(of_study: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Return what is expected of a further study's share, from all and without each family.

    And the likeliest share of each study.
    """
    rows: list[tuple[str, int, float, float]] = []
    for left_out in (NOTHING, *dict.fromkeys(map(family, of_study))):
        kept = [own for name, own in of_study.items() if family(name) != left_out]
        label = "all" if left_out == NOTHING else f"all without {left_out}"
        learnt = learnt_share(kept)
        rows.append((label, sum(map(len, kept)), learnt.median, learnt.sigma))
    looked_at = np.geomspace(LOWEST, HIGHEST, LOOKED_AT)
    for name, own in of_study.items():
        likeliest = float(looked_at[np.argmax(log_likelihood(own, looked_at))])
        rows.append((name, len(own), likeliest, np.nan))
    return pd.DataFrame(rows, columns=["studies", "runs", "share", "sigma"])


def ends_of_studies(
    folder: Path,
    spec: ModelSpec,
    pool: Pool,
    seed: int,
    left_out: str = NOTHING,
    group: Group = family,
) -> dict[str, pd.DataFrame]:
    """Return `ends` of the studies of pre-training in a folder that have any, by their names."""
    spec = without_widening(spec)
    tasks = [
        (name, fold)
        for name, folds in pretraining_suite(folder).items()
        if group(name) != left_out
        for fold in folds(Models(spec, spec))
    ]
    work = partial(_ends_of, spec=spec, seed=seed)
    return {name: own for name, own in pool.run(work, tasks) if len(own)}


def _ends_of(task: tuple[str, Fold], *, spec: ModelSpec, seed: int) -> tuple[str, pd.DataFrame]:
    name, fold = task
    posterior = fit(fold.question.study, spec, seed=task_seed(seed, name))
    return name, ends(posterior, fold.question.plan, fold.measured)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = options_of("beyond", __doc__)
    parser.add_argument("folder", type=Path, help="folder of public studies")
    parser.add_argument("--model", default="pretrain")
    options = parser.parse_args(arguments)
    pool = Pool(options.jobs)
    told = ends_of_studies(options.folder, read_spec(options.model), pool, options.seed)
    sys.stdout.write(markdown_table(shares(told).round(3)) + "\n")


if __name__ == "__main__":
    main()
