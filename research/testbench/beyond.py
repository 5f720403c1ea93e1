"""By what share of itself the law's slope is off beyond the steps that were fitted, from public studies.

From the repository's root; ten minutes of a core::

    PYTHONPATH=research python -m testbench.beyond ../shared/data/public

Each study of pre-training is fitted as `testbench.public` fits it, with bands that do not widen beyond the
fitted steps. What its further runs then end off by, over what the law's slope promises them, tells the
share: the likeliest one of each study, of all, and of all without each family of studies. Runs of a study
are off together, so each study tells as much as one run.
"""

import argparse
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import optimize, stats

from bayes_cpt import fit
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.model.spec import ModelSpec, read_spec
from bayes_cpt.study.study import Study
from bayes_cpt.validate.folds import Fold
from bayes_cpt.validate.parallel import Pool, task_seed
from testbench.public import Models, family, pretraining_suite
from testbench.report import markdown_table

# Ends nearer to the fitted steps than so many e-folds tell of other things.
NEAREST = 0.02
# Of the shares that are looked at.
LOWEST, HIGHEST = 1e-3, 1.0
NOTHING = "none"

# Name of a study, what is fitted of it and asked for, by what, and the seed.
type Task = tuple[str, Fold, ModelSpec, int]


def without_widening(spec: ModelSpec) -> ModelSpec:
    """Return a model whose bands do not widen beyond the steps that were fitted.

    Parameters
    ----------
    spec : ModelSpec
    """
    residuals = spec.residuals.model_copy(update={"extrapolation_pt": 0.0})
    return spec.model_copy(update={"residuals": residuals})


def ends(posterior: Posterior, plan: Study, measured: pd.DataFrame) -> pd.DataFrame:
    """Return how far off further runs end, those that end beyond the fitted steps.

    Parameters
    ----------
    posterior : Posterior
        Of a study of pre-training, by a model whose bands do not widen.
    plan : Study
        Runs that it did not see.
    measured : DataFrame
        Columns run, domain, step and loss: their measured losses.

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


def likeliest_share(studies: Collection[pd.DataFrame]) -> float:
    """Return the share of the law's slope under which the ends of runs are likeliest.

    Parameters
    ----------
    studies : collection of DataFrame
        From `ends`, of one study each; every study counts as one run.
    """

    def unlikely(log_share: float) -> float:
        share, total = np.exp(log_share), 0.0
        for own in studies:
            sd = np.hypot(own["sd"], share * own["promised"])
            total -= float(stats.norm.logpdf(own["error"], 0.0, sd).mean())
        return total

    bounds = (np.log(LOWEST), np.log(HIGHEST))
    return float(np.exp(optimize.minimize_scalar(unlikely, bounds=bounds, method="bounded").x))


def shares(of_study: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the likeliest share of all studies, without each family, and of each study.

    Parameters
    ----------
    of_study : dict of str to DataFrame
        From `ends`, by the name of the study.
    """
    rows: list[tuple[str, int, float]] = []
    for left_out in (NOTHING, *dict.fromkeys(map(family, of_study))):
        kept = [own for name, own in of_study.items() if family(name) != left_out]
        label = "all" if left_out == NOTHING else f"all without {left_out}"
        rows.append((label, sum(map(len, kept)), likeliest_share(kept)))
    rows += [(name, len(own), likeliest_share([own])) for name, own in of_study.items()]
    return pd.DataFrame(rows, columns=["studies", "runs", "share"])


def ends_of_studies(
    folder: Path, spec: ModelSpec, pool: Pool, seed: int, left_out: str = NOTHING
) -> dict[str, pd.DataFrame]:
    """Return `ends` of the studies of pre-training in a folder that have any, by their names.

    Parameters
    ----------
    folder : Path
        As `testbench.public` takes it.
    spec : ModelSpec
        What they are fitted with, its bands taken not to widen.
    pool : Pool
    seed : int
    left_out : str
        A family whose studies are not looked at.
    """
    spec = without_widening(spec)
    tasks: list[Task] = [
        (name, fold, spec, seed)
        for name, folds in pretraining_suite(folder).items()
        if family(name) != left_out
        for fold in folds(Models(spec, spec))
    ]
    return {name: own for name, own in pool.run(_ends_of, tasks) if len(own)}


def _ends_of(task: Task) -> tuple[str, pd.DataFrame]:
    name, fold, spec, seed = task
    posterior = fit(fold.question.study, spec, seed=task_seed(seed, name))
    return name, ends(posterior, fold.question.plan, fold.measured)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m testbench.beyond", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("folder", type=Path, help="folder of public studies")
    parser.add_argument("--model", default="pretrain")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args(arguments)
    pool = Pool(options.jobs)
    told = ends_of_studies(options.folder, read_spec(options.model), pool, options.seed)
    sys.stdout.write(markdown_table(shares(told).round(3)) + "\n")


if __name__ == "__main__":
    main()
