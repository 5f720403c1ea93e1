"""Laws compared on a study: which predicts held-out runs best, and what a stack of them gains.

The cheap answer leaves out curves by Pareto-smoothed importance sampling (Vehtari, Gelman and Gabry 2017,
doi:10.1007/s11222-016-9696-4; by ArviZ), from one fit of each law. A curve is one observation, as its
points are not independent; that is an easier question than leaving out a run, whose other curve stays, and
holds only where no curve moves the posterior much (Pareto k). The other answer refits each law without each
run.
"""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Self

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from bayes_cpt.errors import Problem, ProblemError, SpecError, StudyError
from bayes_cpt.forecast.drawn import point_table
from bayes_cpt.inference.posterior import Posterior, stack
from bayes_cpt.model.setup import Setup
from bayes_cpt.model.spec import ModelSpec, read_spec
from bayes_cpt.study.study import Study
from bayes_cpt.validate.folds import Fold, fittable, held_out_folds
from bayes_cpt.validate.held_out import MIXTURE_TABLES, Method, package_method, score_folds
from bayes_cpt.validate.law_scores import LawScores, differences, stacking_weights
from bayes_cpt.validate.tasks import Pool, Progress, Records, described, fit_each

TAILS = (0.5,)
# Runs without which there is no error of a difference, and no weights that have not seen a run.
FEWEST_RUNS = 3
STACK_FILE = "stack.nc"


@dataclass(frozen=True, eq=False)
class CurveLoo:
    """Expected log densities of left-out curves, by importance sampling."""

    # A row per curve, "run, validation set", and a column per law
    log_densities: pd.DataFrame
    pareto_k: pd.DataFrame
    highest_k: float  # above it an estimate is not to be trusted

    @classmethod
    def of(cls, fits: Mapping[str, Posterior]) -> Self | str:
        """Return the estimate from fits to the same points of a study, or in words why there is none."""
        import arviz as az

        trees = {name: fit.tree for name, fit in fits.items()}
        lacking = [name for name, tree in trees.items() if "log_likelihood" not in tree.children]
        if lacking:
            return f"the fit of {lacking[0]} holds no log likelihoods"
        # A large Pareto k is said in `doubtful`.
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            loos = {
                name: az.loo(tree, pointwise=True, var_name="loss", reff=1.0)
                for name, tree in trees.items()
            }
        curves = trees[next(iter(trees))]["log_likelihood"]["curve"].to_numpy().astype(str)
        densities = pd.DataFrame({law: np.ravel(own.elpd_i) for law, own in loos.items()}, curves)
        pareto_k = pd.DataFrame({law: np.ravel(own.pareto_k) for law, own in loos.items()}, curves)
        return cls(densities, pareto_k, float(min(own.good_k for own in loos.values())))

    @property
    def doubtful(self) -> dict[str, int]:
        """Curves with too large a Pareto k, by law."""
        return {str(law): int(n) for law, n in (self.pareto_k > self.highest_k).sum().items()}

    @property
    def holds(self) -> bool:
        """Whether the estimate can be trusted for every curve and law."""
        return not any(self.doubtful.values())

    @cached_property
    def weights(self) -> dict[str, float]:
        """Stacking weights over curves."""
        return dict(stacking_weights(self.log_densities).to_dict())

    @property
    def best(self) -> str:
        """The law with the largest mean log density."""
        return str(self.log_densities.sum().idxmax())

    def differences(self) -> pd.DataFrame:
        """Return the mean difference per run to the best law, with its error, by law.

        The curves of a run are one observation.
        """
        of_runs = self.log_densities.groupby(lambda curve: curve.rpartition(", ")[0], sort=False)
        return differences(of_runs.sum(), self.best)

    def table(self) -> pd.DataFrame:
        """Return one row per law: law, mean and error of `differences`, weight, and doubtful curves."""
        columns = self.differences().assign(weight=self.weights, doubtful=self.doubtful)
        return columns.rename_axis("law").reset_index()


@dataclass(frozen=True, eq=False)
class Comparison:
    """Laws beside each other on one study.

    Parameters
    ----------
    study : Study
    seed : int
    fits : dict of str to Posterior
        Of each law to the whole study, by name.
    curve_loo : CurveLoo or str
        The cheap first answer, or why there is none.
    scores : LawScores or None
        Of held-out runs and tails; None where only the first answer was asked for.
    """

    study: Study
    seed: int
    fits: dict[str, Posterior]
    curve_loo: CurveLoo | str
    scores: LawScores | None

    @property
    def weights(self) -> dict[str, float] | None:
        """Weights of the stack: of runs left out, else of curves where Pareto k allows; None without."""
        if self.scores is not None:
            return self.scores.weights
        loo = self.curve_loo
        return None if isinstance(loo, str) or not loo.holds else loo.weights

    @cached_property
    def stack(self) -> Posterior | None:
        """The fits as one, each with its share of the draws; None where no weights can be trusted."""
        return None if self.weights is None else stack(self.fits, self.weights, self.seed)

    @property
    def problems(self) -> tuple[str, ...]:
        """What keeps the comparison from being trusted, the law named first; empty where nothing does."""
        problems = [f"{law}: {said}" for law, fit in self.fits.items() for said in fit.problems]
        if self.scores is not None:
            return (*problems, *self.scores.problems)
        if isinstance(self.curve_loo, str):
            return (*problems, f"no first answer without refits: {self.curve_loo}")
        doubtful = self.curve_loo.doubtful.items()
        problems += [f"{law}: Pareto k is too large in {n} curves" for law, n in doubtful if n]
        return tuple(problems)

    def table(self) -> pd.DataFrame:
        """Return one row per law and stack, and per share of the runs that was seen (`LawScores.table`)."""
        if self.scores is None:
            raise ValueError("no run was left out: compare without quick")
        return self.scores.table()

    def verdict(self) -> list[str]:
        """Return which law to use, how sure that is and what would change it, a short line each."""
        from bayes_cpt.report.comparison import comparison_words

        return comparison_words(self).verdict

    def sentences(self) -> list[str]:
        """Return what the scores say, one paragraph per question."""
        from bayes_cpt.report.comparison import comparison_words

        return comparison_words(self).sentences

    def plot(self) -> Figure:
        """Return a figure of the scores (see `bayes_cpt.plots.comparison`)."""
        from bayes_cpt import plots

        return plots.comparison(self)


def compare(
    study: Study,
    models: Sequence[str | Path | ModelSpec],
    *,
    runs: Iterable[str] | None = None,
    tails: Sequence[float] = TAILS,
    quick: bool = False,
    draws: int | None = None,
    seed: int = 0,
    jobs: int | None = None,
    dask: str | None = None,
    folder: Path | None = None,
    progress: Progress | None = None,
    first: Callable[[CurveLoo | str], None] | None = None,
) -> Comparison:
    r"""Compare laws on a study: by the fits alone first, then by held-out runs and tails.

    Parameters
    ----------
    study : Study
    models : sequence of str, Path or ModelSpec
        At least two, of one phase.
    runs : iterable of str, optional
        Runs to leave out; all that the laws predict unless given.
    tails : sequence of float
        Shares of each run's steps after which the rest is predicted as well.
    quick : bool
        Whether to leave it at the fits alone.
    draws : int, optional
        Kept in each of the four chains; as `fit` does unless given.
    seed : int
        Of the fits; that of a refit comes from it and what is left out.
    jobs, dask
        Where refits run (see `bayes_cpt.validate.tasks.Pool`).
    folder : Path, optional
        For the fit of each law, NAME.nc, and the tables of the refits. What is done is saved there, and
        a rerun goes on.
    progress : callable, optional
        Called with a stage and the share of it that is done.
    first : callable, optional
        Called with the first answer (see `Comparison`) as soon as there is one.

    Returns
    -------
    Comparison

    Raises
    ------
    SpecError, StudyError
        If the models cannot be compared, or the study cannot tell them apart.
    ProblemError
        If the folder holds results of other settings.

    Examples
    --------
    >>> import bayes_cpt                                                              # doctest: +SKIP
    >>> study = bayes_cpt.read_study("data/cpt-lab")                                   # doctest: +SKIP
    >>> result = bayes_cpt.compare(study, ["cpt-replay", "cpt-replay-printed"], jobs=2)  # doctest: +SKIP
    >>> print(*result.verdict(), sep="\n")                                            # doctest: +SKIP
    >>> result.stack.save("stack.nc")                                                 # doctest: +SKIP
    """
    specs = read_models(models)
    # What cannot be answered is said before the long fits.
    apart = _points_apart({name: fittable(spec, study) for name, spec in specs.items()})
    if quick and apart:
        problem = f"{apart}, so that fits alone cannot tell which predicts better"
        fix = "leave --quick out, to compare them on held-out runs"
        raise SpecError.at("models", problem, fix)
    folds = [] if quick else comparison_folds(study, specs, runs, tails)
    pool = Pool(jobs, dask)
    settings = described(list(specs.values()), seed, study=study.digest(), draws=draws)
    records = Records.open(folder, settings, MIXTURE_TABLES)
    fits = fit_each(
        {name: (study, spec) for name, spec in specs.items()},
        seed,
        draws=draws,
        pool=pool,
        folder=folder,
        progress=progress,
        stage=f"fitting {len(specs)} laws",
    )
    sampled = {name: own for name, own in fits.items() if isinstance(own, Posterior)}
    for name in fits.keys() - sampled.keys():
        problem = f"it cannot be sampled on the whole study: {str(fits[name]).rstrip('.')}"
        fix = "leave it out of the comparison"
        raise ProblemError.at(f"model {name}", problem, fix)
    loo = f"{apart}, so that densities do not compare" if apart else CurveLoo.of(sampled)
    scores = None
    if first is not None:
        first(loo)
    if folds:
        cores = pool.cores(len(folds) * len(specs))
        methods: Mapping[str, Method] = {
            name: partial(package_method, specs=[spec], draws=draws, cores=cores)
            for name, spec in specs.items()
        }
        quantiles, log_scores, refits = score_folds(
            folds, methods, seed, pool=pool, records=records, progress=progress
        )
        scores = LawScores.of(folds, quantiles, log_scores, refits, tuple(specs))
    return Comparison(study, seed, sampled, loo, scores)


def read_models(models: Sequence[str | Path | ModelSpec]) -> dict[str, ModelSpec]:
    """Return the specifications of models that can be compared, by name."""
    listed = [models] if isinstance(models, str) else models
    read = [model if isinstance(model, ModelSpec) else read_spec(model) for model in listed]
    problems = []
    if len(read) < 2:
        problem = f"there is nothing to compare {read[0].name} with" if read else "there is none"
        fix = "name two at least, as in cpt-replay,cpt-replay-printed"
        problems.append(Problem("models", problem, fix))
    specs: dict[str, ModelSpec] = {}
    for spec in read:
        if spec.name in specs:
            fix = "leave one out, or give it another name"
            problems.append(Problem("models", f"{spec.name} comes twice", fix))
        specs[spec.name] = spec
    pretraining = ", ".join(spec.name for spec in read if not spec.law.continual)
    continual = ", ".join(spec.name for spec in read if spec.law.continual)
    if pretraining and continual:
        problem = f"{pretraining} is about PT runs, {continual} about CPT runs: they predict different runs"
        problems.append(Problem("models", problem, "compare models of one phase at a time"))
    if problems:
        raise SpecError(problems)
    return specs


def _points_apart(setups: Mapping[str, Setup]) -> str:
    """Return in words which two laws leave out different points of a study; empty where none do."""
    points = {name: point_table(setup.curves) for name, setup in setups.items()}
    first, *others = points
    apart = (name for name in others if not points[name].equals(points[first]))
    return next((f"{name} leaves out other points of the runs than {first}" for name in apart), "")


def comparison_folds(
    study: Study, specs: Mapping[str, ModelSpec], runs: Iterable[str] | None, tails: Sequence[float]
) -> list[Fold]:
    """Return whole runs and tails to predict, at the points that all laws count."""
    names = None if runs is None else list(runs)
    first, *others = (
        {fold.label: fold for fold in held_out_folds(study, spec, names, (0.0, *tails))}
        for spec in specs.values()
    )
    kept, keys = [], ["run", "domain", "step"]
    for label, fold in first.items():
        measured = fold.measured
        for own in others:
            asked = own[label].measured if label in own else measured.iloc[:0]
            measured = measured.merge(asked[keys], on=keys)
        if len(measured):
            kept.append(fold.at(measured))
    whole = sum(fold.seen == 0 for fold in kept)
    if whole < FEWEST_RUNS:
        need = f"the weights of laws and the errors of their differences need {FEWEST_RUNS}"
        runs = "1 run" if whole == 1 else f"{whole} runs"
        problem = f"{runs} can be left out in turn, and {need}"
        fix = "measure more runs, or compare the fits alone: --quick"
        raise StudyError.at(f"study {study.name}", problem, fix)
    return kept
