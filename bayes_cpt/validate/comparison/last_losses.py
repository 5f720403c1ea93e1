"""Laws beside those of final losses, at the last loss of each run that was left out.

The D-CPT law and the data-mixing law know nothing of learning rates or bases, and have no density of a
whole curve: so they are no part of the stack, and are scored where they say something, at the ends of runs.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from bayes_cpt.checks import suggestion
from bayes_cpt.errors import Problem, SpecError
from bayes_cpt.model.spec import ModelSpec
from bayes_cpt.validate.comparison.law_scores import CRPS, LawScores, scored_mixture
from bayes_cpt.validate.comparison.stacking import difference
from bayes_cpt.validate.final_losses.final_losses import LAWS, check_asked
from bayes_cpt.validate.folds import Fold, Question
from bayes_cpt.validate.paper_method import BaselineError

if TYPE_CHECKING:
    import pandas as pd

ERROR = "absolute_error"


@dataclass(frozen=True, eq=False)
class LastLosses:
    """Scores at the last losses of runs that no fit saw, each run one observation.

    Parameters
    ----------
    best : str
        The law with the largest log score of whole runs: others are compared with it.
    methods : tuple of str
        Laws and their stack, then the baselines.
    points : DataFrame
        `bayes_cpt.validate.scores.score_points` of the last loss of each run, with method.
    """

    best: str
    methods: tuple[str, ...]
    points: "pd.DataFrame" = field(repr=False)

    @classmethod
    def of(
        cls,
        scores: LawScores,
        ends: Sequence[Fold],
        quantiles: "pd.DataFrame",
        baselines: Sequence[str],
    ) -> Self:
        """Return the scores of laws and baselines where all of them gave a forecast.

        Parameters
        ----------
        scores : LawScores
        ends : sequence of Fold
            From `last_losses_of`.
        quantiles : DataFrame
            Of the baselines' forecasts, as `LawScores.of` takes them.
        baselines : sequence of str
        """
        import pandas as pd

        of_baselines = [
            scored_mixture(fold, quantiles, {name: {name: 1.0} for name in baselines})
            for fold in ends
        ]
        laws = scores.points[(scores.points["seen"] == 0) & (scores.points["share"] == 1.0)]
        points = pd.concat([laws, *of_baselines], ignore_index=True)
        methods = (*scores.methods, *baselines)
        answered = points.groupby("run")["method"].nunique() == len(methods)
        kept = points["run"].map(answered)
        return cls(scores.best, methods, points[kept].reset_index(drop=True))

    @property
    def baselines(self) -> tuple[str, ...]:
        """The laws of final losses."""
        return tuple(name for name in self.methods if name in LAWS)

    @property
    def runs(self) -> int:
        """How many runs every method was scored on."""
        return int(self.points["run"].nunique())

    def table(self) -> "pd.DataFrame":
        """Return one row per method.

        Returns
        -------
        DataFrame
            Columns method, runs; crps and mae (nats/token, means over runs), crps_difference to the best
            law with crps_error; coverage_50, coverage_90 and coverage_90_error (shares), width_90.
        """
        import pandas as pd

        columns = [CRPS, ERROR, "covered_50", "covered_90", "width_90"]
        means = self.points.groupby(["method", "run"], sort=False)[columns].mean()
        rows = []
        for method in self.methods:
            of_method = means.loc[method]
            gap = difference(of_method[CRPS].to_numpy(), means.loc[self.best][CRPS].to_numpy())
            rows.append(
                {
                    "method": method,
                    "runs": len(of_method),
                    "crps": of_method[CRPS].mean(),
                    "crps_difference": gap.mean,
                    "crps_error": gap.error,
                    "mae": of_method[ERROR].mean(),
                    "coverage_50": of_method["covered_50"].mean(),
                    "coverage_90": of_method["covered_90"].mean(),
                    "coverage_90_error": of_method["covered_90"].sem(),
                    "width_90": of_method["width_90"].mean(),
                }
            )
        return pd.DataFrame(rows)


def read_baselines(names: Iterable[str], specs: Mapping[str, ModelSpec]) -> tuple[str, ...]:
    """Return the names of laws of final losses that can stand beside models.

    Parameters
    ----------
    names : iterable of str
    specs : mapping of str to ModelSpec

    Raises
    ------
    SpecError
        If there is no such law, one comes twice, or the models are about PT runs.
    """
    chosen, problems = tuple(names), []
    for name in dict.fromkeys(chosen):
        if name not in LAWS:
            problem = f"there is no law of final losses {name!r}{suggestion(name, LAWS)}"
            problems.append(Problem("baselines", problem, f"choose from {', '.join(LAWS)}"))
        elif chosen.count(name) > 1:
            problems.append(Problem("baselines", f"{name} comes twice", "leave one out"))
    if chosen and not all(spec.law.continual for spec in specs.values()):
        problem = "laws of final losses are about CPT runs, and these models about PT runs"
        problems.append(Problem("baselines", problem, "leave --baselines out"))
    if problems:
        raise SpecError(problems)
    return chosen


def last_losses_of(folds: Sequence[Fold], baselines: Sequence[str]) -> list[Fold]:
    """Return folds that ask for the last loss of each run that is left out as a whole.

    Parameters
    ----------
    folds : sequence of Fold
    baselines : sequence of str
        That are to answer.

    Raises
    ------
    SpecError
        If too few runs were measured at their last step, or a baseline cannot be fitted without some run.
    """
    of_last = []
    for fold in folds:
        measured = fold.measured[fold.measured["share"] == 1.0]
        if fold.seen > 0 or measured.empty:
            continue
        asked = fold.question
        points = measured[["run", "domain", "step"]]
        question = Question(asked.study, asked.plan, points, asked.known)
        of_last.append(Fold(fold.label, fold.seen, question, measured))
    if len(of_last) < 2:
        problem = f"{len(of_last)} of the runs to leave out were measured at their last step"
        raise SpecError.at("baselines", problem, "leave --baselines out")
    for fold in of_last:
        asked = fold.question
        for name in baselines:
            try:
                check_asked(LAWS[name], asked.study, asked.plan, asked.points)
            except BaselineError as error:
                place, fix = f"baselines, without {fold.label}", f"leave {name} out"
                raise SpecError.at(place, str(error).rstrip("."), fix) from None
    return of_last
