"""Forecasts that others submit: a CSV of quantiles at the points of the benchmark (docs/benchmark.md).

Columns ``study``, ``run``, ``domain`` and ``step`` say where, as in ``questions.csv``; columns ``q5``,
``q25``, ``q50``, ``q75``, ``q95`` and any others like them are quantiles in per cent, in nats/token.
Between two quantiles the distribution is uniform; what lies beyond the outermost ones is put on them.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from bayes_cpt.arrays import Floats
from bayes_cpt.errors import StudyError
from bayes_cpt.validate.folds import Fold, Question
from bayes_cpt.validate.held_out import Answer
from testbench.baselines import BaselineError

KEYS = ["study", "run", "domain", "step"]
NEEDED = (5.0, 25.0, 50.0, 75.0, 95.0)
QUANTILE = re.compile(r"q(\d+(?:\.\d+)?)")
# Equal masses that a distribution is scored by.
DRAWS = 400


def questions(studies: Mapping[str, Sequence[Fold]]) -> pd.DataFrame:
    """Return all points to be forecast: what they are asked from, study, run, domain and step."""
    tables = [
        fold.question.points.assign(benchmark=name, study=fold.question.plan.name)
        for name, folds in studies.items()
        for fold in folds
    ]
    return pd.concat(tables, ignore_index=True)[["benchmark", *KEYS]]


@dataclass(frozen=True, eq=False)
class Submitted:
    """A method that answers from a file of quantiles.

    Parameters
    ----------
    file : Path
    levels : ndarray, shape (quantiles,)
        Between 0 and 1, increasing.
    values : DataFrame
        Losses, nats/token, a column for each level; the index is `KEYS`.
    """

    file: Path
    levels: Floats
    values: pd.DataFrame

    def __call__(self, question: Question, seed: int) -> Answer:
        """Answer a question at all of its points."""
        asked = pd.MultiIndex.from_frame(question.points.assign(study=question.plan.name)[KEYS])
        found = self.values.reindex(asked)
        if (missing := found.isna().any(axis=1)).any():
            first = ", ".join(map(str, found.index[missing.to_numpy()][0]))
            raise BaselineError(f"{self.file} has no forecast for {first}")
        masses = (np.arange(DRAWS) + 0.5) / DRAWS
        draws = [np.interp(masses, self.levels, row) for row in found.to_numpy()]
        return Answer(np.stack(draws, axis=1))


def read_forecasts(file: Path) -> Submitted:
    """Return the method that answers from a CSV of forecasts."""
    table = pd.read_csv(file)
    named = {name: QUANTILE.fullmatch(name) for name in table.columns}
    levels = sorted((float(found[1]), name) for name, found in named.items() if found)
    missing = [name for name in KEYS if name not in table]
    missing += [f"q{level:g}" for level in NEEDED if level not in dict(levels)]
    if missing:
        fix = f"give {', '.join(KEYS)} and quantiles such as q5, q25, q50, q75 and q95"
        raise StudyError.at(str(file), f"there is no column {missing[0]}", fix)
    values = table.set_index(KEYS)[[name for _, name in levels]].astype(float)
    if values.index.has_duplicates:
        first = ", ".join(map(str, values.index[values.index.duplicated()][0]))
        raise StudyError.at(str(file), f"there are two forecasts for {first}", "give one")
    if (np.diff(values.to_numpy(), axis=1) < 0).any():
        fix = "sort the quantiles of each row"
        raise StudyError.at(str(file), "quantiles fall where their levels rise", fix)
    return Submitted(file, np.array([level for level, _ in levels]) / 100, values)
