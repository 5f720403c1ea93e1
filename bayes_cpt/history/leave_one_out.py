"""Leave one study out: priors from all others, and forecasts of the one left out under them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bayes_cpt.history.learnt import Learnt
from bayes_cpt.model.spec import ModelSpec
from bayes_cpt.study.study import Study
from bayes_cpt.validate.folds import Fold, held_out_folds, other_study
from bayes_cpt.validate.held_out import TABLES, package_method, score_folds
from bayes_cpt.validate.scores import ALL_DOMAINS, EQUAL_RUNS, summarize
from bayes_cpt.validate.tasks import Pool, Progress, Records

if TYPE_CHECKING:
    import pandas as pd

LEARNT, BEFORE = "learnt", "before"


@dataclass(frozen=True, eq=False)
class Case:
    """A study to learn from, and runs of it that no fit sees, where they are kept apart."""

    study: Study
    held_out: Study | None = None

    def folds(self, spec: ModelSpec) -> list[Fold]:
        """Return what is asked of a fit: its held-out runs, or else each of its own runs left out."""
        if self.held_out is not None:
            return other_study(self.study, self.held_out, spec)
        runs = spec.law.last_phase_runs(self.study)
        return held_out_folds(self.study, spec) if len(runs) > 1 else []


def read_case(folder: str | Path) -> Case:
    """Read a study folder, or one that holds the folders ``fit`` and ``predict``."""
    from bayes_cpt.study.folder import read_study

    path = Path(folder)
    fitted, predicted = path / "fit", path / "predict"
    if not fitted.is_dir() or (path / "study.toml").exists():
        return Case(read_study(path))
    return Case(read_study(fitted), read_study(predicted) if predicted.is_dir() else None)


def score_left_out(
    cases: Sequence[Case],
    without: Mapping[str, Learnt],
    seed: int = 0,
    *,
    draws: int | None = None,
    pool: Pool | None = None,
    records: Callable[[Case, Learnt], Records] | None = None,
    progress: Progress | None = None,
) -> "pd.DataFrame":
    """Score forecasts of each study under priors from all others, and under the model's own.

    Parameters
    ----------
    records : callable, optional
        Of a case and the model learnt without it, where its scores are kept, with the tables of
        `bayes_cpt.validate.held_out.score_folds`.

    Returns
    -------
    DataFrame
        One row per study and method (``learnt``, ``before``): study, method, runs, refits that fall
        short, and the scores of `bayes_cpt.validate.scores.summarize`, each run counting alike. Studies
        with nothing to predict are left out.
    """
    import pandas as pd

    where = pool or Pool()
    rows = []
    for case in cases:
        learnt = without[case.study.name]
        folds = case.folds(learnt.spec)
        if not folds:
            continue
        cores = where.cores(2 * len(folds))
        methods = {
            name: partial(package_method, specs=[spec], draws=draws, cores=cores)
            for name, spec in ((LEARNT, learnt.spec), (BEFORE, learnt.before))
        }
        kept = records(case, learnt) if records else Records.open(None, {}, TABLES)

        def tell(stage: str, share: float, study: str = case.study.name) -> None:
            if progress is not None:
                progress(f"{study} left out: {stage}", share)

        points, refits = score_folds(folds, methods, seed, pool=where, records=kept, progress=tell)
        for method, method_points in points.groupby("method", sort=False):
            scores = summarize(method_points)
            row = scores[(scores["run"] == EQUAL_RUNS) & (scores["domain"] == ALL_DOMAINS)].iloc[0]
            short = refits[(refits["method"] == method) & ~refits["trustworthy"].astype(bool)]
            rows.append(
                {
                    "study": case.study.name,
                    "method": method,
                    "runs": method_points["run"].nunique(),
                    "short": len(short),
                }
                | row.drop(["run", "domain"]).to_dict()
            )
    return pd.DataFrame(rows)


def crps_ratio(scores: "pd.DataFrame") -> float:
    """Return the CRPS under learnt priors over that under the model's own: geometric mean over studies."""
    by_method = scores.pivot(index="study", columns="method", values="crps").dropna()
    return float(np.exp(np.log(by_method[LEARNT] / by_method[BEFORE]).mean()))
