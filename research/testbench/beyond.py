"""By what the law's slope is off beyond the steps that were fitted, from runs that go on.

From the repository's root; ten minutes of a core each::

    PYTHONPATH=research python -m testbench.beyond data/public
    PYTHONPATH=research python -m testbench.beyond data/public --model cpt-replay

Each study is fitted with bands that do not widen beyond the fitted steps: of pre-training as
`testbench.public` fits it; of CPT the first half of every run, and the runs that longer ones are asked for
after. What runs then end off by, over how far a band would widen at a share of 1, tells the share of the
study. The shares of studies are lognormal, and what is expected of a further one is the prior of
`extrapolation_pt` or `extrapolation_cpt`: by all studies, and by all without each family of them. Runs of a
study are off together, so each study tells as much as one run.
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
from bayes_cpt.bundled import bundled_study
from bayes_cpt.forecast.plans import Kind
from bayes_cpt.forecast.predict import draws_at
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.model.evaluate import Draws, scales_of
from bayes_cpt.model.priors import Distribution, Fixed, LogNormal, Prior
from bayes_cpt.model.spec import ModelSpec, read_spec
from bayes_cpt.study.folder import read_study
from bayes_cpt.study.study import Study
from bayes_cpt.validate.folds import Fold, other_study
from bayes_cpt.validate.tasks import Pool, task_seed
from testbench.delphi import fold_of
from testbench.public import DELPHI, FAMILIES, LAB_TESTS, Group, Models, family, pretraining_suite
from testbench.report import markdown_table, options_of

# Ends nearer to the fitted steps than so many e-folds tell of other things.
NEAREST = 0.02
# Of the shares that are looked at, and how many: evenly spread in their logarithm.
LOWEST, HIGHEST, LOOKED_AT = 1e-4, 30.0, 400
# Medians and sds of the log of the shares of studies. Half-normal of sd 1 is the prior of the latter, flat
# that of the log of the former.
MEDIANS = np.geomspace(1e-3, 5.0, 60)
SPREADS = np.linspace(0.05, 3.0, 60)
MASS = 0.9
NOTHING = "none"


def share_of(spec: ModelSpec) -> str:
    """Return the parameter of a model that bands widen by."""
    return "extrapolation_cpt" if spec.law.continual else "extrapolation_pt"


def without_widening(spec: ModelSpec) -> ModelSpec:
    """Return a model whose bands do not widen beyond the steps that were fitted."""
    return with_share(spec, Fixed(distribution="fixed", value=0.0))


def widening(posterior: Posterior, plan: Study, ends: pd.DataFrame) -> Floats:
    """Return the sd at each end that bands would widen by at a share of 1, nats/token."""
    frame, steps = posterior.frame, ends.groupby(["run", "domain"])["step"].agg(list)
    parameters = posterior.parameters()
    share = share_of(frame.spec)
    parameters |= {share: np.ones((len(parameters["reference_slope"]), len(frame.domains)))}
    runs = [plan.run(name) for name in ends["run"].unique()]
    curves = frame.curves(plan, lambda run, domain: steps.get((run.name, domain), []), runs)
    design = frame.residual_design(curves)
    scales = scales_of(curves, Draws.of(frame, parameters, curves.points.form))
    names = [(curve.run, curve.domain) for curve in curves.curves]
    found = pd.Series(
        (scales.extrapolation * design.beyond).mean(axis=0), index=pd.MultiIndex.from_tuples(names)
    )
    return np.asarray(found[list(zip(ends["run"], ends["domain"], strict=True))])


def ends(posterior: Posterior, fold: Fold) -> pd.DataFrame:
    """Return how far off further runs end, those that end beyond the fitted steps.

    Returns
    -------
    DataFrame
        Columns run, domain, step, loss, error and sd (measured less expected and what is stated of it,
        nats/token), promised (`widening`, nats/token).
    """
    measured, plan = fold.measured, fold.question.plan
    last = measured.loc[measured.groupby(["run", "domain"])["step"].idxmax()]
    last = last[["run", "domain", "step", "loss"]].reset_index(drop=True)
    studied = posterior.frame.studied
    phases = last["run"].map({run.name: run.phase for run in plan.runs})
    folds = np.log(last["step"] / phases.map({"pt": studied.pretraining, "cpt": studied.continual}))
    last = last[folds > NEAREST].reset_index(drop=True)
    if last.empty:
        return last.assign(promised=0.0, error=0.0, sd=0.0)
    points = last[["run", "domain", "step"]]
    kind: Kind = "known_run" if fold.question.known else "new_run"
    drawn = draws_at(posterior.predict(plan, kind=kind, at=points)["loss"], points)
    return last.assign(
        promised=widening(posterior, plan, last),
        error=last["loss"] - drawn.mean(axis=0),
        sd=drawn.std(axis=0),
    )


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


def with_share(spec: ModelSpec, share: Distribution) -> ModelSpec:
    """Return a model with another prior of the share."""
    prior = Prior(reason="Learnt from the ends of held-out runs.", every=share)
    return spec.model_copy(update={"priors": spec.priors | {share_of(spec): prior}})


def shares(of_study: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Return what is expected of a further study's share, from all and without each family.

    And the likeliest share of each study.
    """
    rows: list[tuple[str, int, float, float]] = []
    for left_out in (NOTHING, *dict.fromkeys(map(family_of, of_study))):
        kept = [own for name, own in of_study.items() if family_of(name) != left_out]
        label = "all" if left_out == NOTHING else f"all without {left_out}"
        learnt = learnt_share(kept)
        rows.append((label, sum(map(len, kept)), learnt.median, learnt.sigma))
    looked_at = np.geomspace(LOWEST, HIGHEST, LOOKED_AT)
    for name, own in of_study.items():
        likeliest = float(looked_at[np.argmax(log_likelihood(own, looked_at))])
        rows.append((name, len(own), likeliest, np.nan))
    return pd.DataFrame(rows, columns=["studies", "runs", "share", "sigma"])


def family_of(name: str) -> str:
    """Return the family of a study of pre-training, or of runs of CPT that go on."""
    first = name.split("-")[0]
    return family(name) if first in FAMILIES else first


def continual_folds(folder: Path, spec: ModelSpec) -> dict[str, list[Fold]]:
    """Return runs of CPT that go on beyond the fitted steps, by their studies."""
    lab = bundled_study()
    studies = {
        "lab": lab,
        "strong": LAB_TESTS / "cpt-lab-strong",
        "pythia": folder / "pythia-python",
    }
    studies |= {
        f"{DELPHI}-{path.parent.name}": path.parent
        for path in sorted((folder / DELPHI).glob("*/study.toml"))
    }
    longer = other_study(read_study(lab), read_study(LAB_TESTS / "cpt-lab-practice"), spec)
    return {name: [fold_of(read_study(path), "half")] for name, path in studies.items()} | {
        "lab-longer": longer
    }


def ends_of_studies(
    folder: Path,
    spec: ModelSpec,
    pool: Pool,
    seed: int,
    left_out: str = NOTHING,
    group: Group = family_of,
) -> dict[str, pd.DataFrame]:
    """Return `ends` of the studies of the model's phase in a folder that have any, by their names."""
    spec = without_widening(spec)
    if spec.law.continual:
        folds = continual_folds(folder, spec)
    else:
        models = Models(spec, spec)
        folds = {name: of(models) for name, of in pretraining_suite(folder).items()}
    tasks = [(name, fold) for name, own in folds.items() if group(name) != left_out for fold in own]
    work = partial(_ends_of, spec=spec, seed=seed)
    return {name: own for name, own in pool.run(work, tasks) if len(own)}


def _ends_of(task: tuple[str, Fold], *, spec: ModelSpec, seed: int) -> tuple[str, pd.DataFrame]:
    name, fold = task
    return name, ends(fit(fold.question.study, spec, seed=task_seed(seed, name)), fold)


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
