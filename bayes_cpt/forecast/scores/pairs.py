"""Pairs of validation loss and benchmark score, as the user measured them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bayes_cpt.arrays import Floats
from bayes_cpt.checks import Check, is_number
from bayes_cpt.errors import StudyError
from bayes_cpt.study.readers.tables import read_table, row_word

if TYPE_CHECKING:
    import pandas as pd


COLUMNS = ("benchmark", "domain", "loss", "score")
CHANCE = "chance"
# A level, a slope, an upper end and a scatter are told by no fewer.
FEWEST = 5


@dataclass(frozen=True, eq=False)
class ScorePairs:
    """What checkpoints showed on one benchmark.

    Parameters
    ----------
    benchmark : str
    domain : str
        Validation set whose loss the score goes with.
    losses : ndarray, shape (checkpoints,)
        nats/token.
    scores : ndarray, shape (checkpoints,)
        Shares of what can be got, 0...1.
    chance : float
        Score of who guesses.
    """

    benchmark: str
    domain: str
    losses: Floats
    scores: Floats
    chance: float = 0.0


def read_pairs(
    source: "str | Path | pd.DataFrame", domains: Sequence[str] = ()
) -> tuple[ScorePairs, ...]:
    """Return the pairs of every benchmark of a table.

    Parameters
    ----------
    source : path or DataFrame
        Columns benchmark, domain, loss (nats/token), score (0...1), and optionally chance; one row per
        checkpoint and benchmark.
    domains : sequence of str
        Names that a domain may have; any unless given.

    Raises
    ------
    StudyError
        With every problem, naming file, row and fix.
    """
    import pandas as pd

    table = source if isinstance(source, pd.DataFrame) else read_table(Path(source))
    place = "scores" if isinstance(source, pd.DataFrame) else str(source)
    word = "row" if isinstance(source, pd.DataFrame) else row_word(Path(source))
    check = Check()
    for name in COLUMNS:
        if name not in table.columns:
            check.add(place, f"there is no column {name}", f"give the columns {', '.join(COLUMNS)}")
    check.raise_problems()
    if table.empty:
        check.add(place, "there is no pair", "give one row per checkpoint and benchmark")
    if CHANCE not in table.columns:
        table = table.assign(chance=0.0)
    for name in ("loss", "score", CHANCE):
        numbers = pd.to_numeric(table[name], errors="coerce")
        # What is no number is told as it stands there.
        table = table.assign(**{name: numbers.where(numbers.notna(), table[name])})
    for label, row in zip(table.index, table.to_dict("records"), strict=True):
        _check_row(check, f"{place}, {word} {label}", row, domains)
    check.raise_problems()
    pairs = []
    for name, rows in table.groupby("benchmark", sort=False):
        where = f"{place}, benchmark {name}"
        for key in ("domain", CHANCE):
            if rows[key].nunique() > 1:
                several = ", ".join(map(str, rows[key].unique()))
                check.add(
                    where,
                    f"it has several values of {key}: {several}",
                    "give it the same in all rows",
                )
        if len(rows) < FEWEST:
            check.add(
                where,
                f"there are {len(rows)} pairs, and its link has four parameters",
                f"give {FEWEST} checkpoints or more",
            )
        elif np.ptp(rows["loss"].to_numpy(float)) == 0:
            check.add(where, "all losses are the same", "give checkpoints of different losses")
        losses, scores = (rows[key].to_numpy(np.float64) for key in ("loss", "score"))
        first = rows.iloc[0]
        pairs.append(
            ScorePairs(str(name), str(first["domain"]), losses, scores, float(first[CHANCE]))
        )
    check.raise_problems()
    return tuple(pairs)


def _check_row(check: Check, place: str, row: dict[str, object], domains: Sequence[str]) -> None:
    for key in ("benchmark", "domain"):
        if not isinstance(row[key], str) or not str(row[key]).strip():
            check.add(f"{place}, column {key}", f"{key} is {row[key]!r}", "give a name")
    if domains and isinstance(row["domain"], str) and row["domain"] not in domains:
        check.add(
            f"{place}, column domain",
            f"the study has no validation set {row['domain']!r}",
            f"name one of {', '.join(domains)}",
        )
    loss, score, chance = row["loss"], row["score"], row[CHANCE]
    if not is_number(loss) or float(loss) <= 0:  # type: ignore[arg-type]
        check.add(f"{place}, column loss", f"the loss is {loss!r}", "give nats/token, above 0")
    for key, value, most in (("score", score, 1.0), (CHANCE, chance, 0.99)):
        if not is_number(value):
            check.add(f"{place}, column {key}", f"{key} is {value!r}", "give a share, 0 to 1")
        elif not 0 <= float(value) <= most:  # type: ignore[arg-type]
            percent = 1 < float(value) <= 100  # type: ignore[arg-type]
            fix = f"write {float(value) / 100:g} for {float(value):g} %"  # type: ignore[arg-type]
            check.add(
                f"{place}, column {key}",
                f"{key} is {value:g}, outside 0 to {most:g}",
                fix if percent else "give a share, 0 to 1",
            )


def pairs_of(pairs: Sequence[ScorePairs], name: str) -> ScorePairs:
    """Return the pairs of a benchmark.

    Parameters
    ----------
    pairs : sequence of ScorePairs
    name : str

    Raises
    ------
    StudyError
        If there is none of that name.
    """
    from bayes_cpt.checks import suggestion

    known = {paired.benchmark: paired for paired in pairs}
    if name in known:
        return known[name]
    problem = f"there are no scores of a benchmark {name!r}{suggestion(name, known)}"
    names = ", ".join(known)
    fix = (
        f"name one of {names}, or give pairs of loss and score"
        if known
        else ("give a table of losses and scores: scores=... or --scores FILE")
    )
    raise StudyError.at(f"benchmark {name}", problem, fix)
