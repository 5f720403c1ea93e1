"""`bayes-cpt compare`: which of several laws predicts held-out runs best, and a stack of them."""

from pathlib import Path
from typing import TYPE_CHECKING

import bayes_cpt
from bayes_cpt.cli.options import ChainDraws, command, listed, read_shares
from bayes_cpt.cli.output import Answer, Output, Part, Results, in_words
from bayes_cpt.report.tables import Table

if TYPE_CHECKING:
    from bayes_cpt.validate.comparison import CurveLoo

# Problems that are named one by one.
NAMED = 4


@command
def compare(
    written: Output,
    study: Path,
    *,
    models: str,
    quick: bool = False,
    runs: str | None = None,
    tails: str = "0.5",
    draws: ChainDraws = None,
    jobs: int | None = None,
    dask: str | None = None,
    seed: int = 0,
    output: Path | None = None,
) -> Answer:
    r"""Compare laws on a study, and stack them.

    First each law is fitted once, and curves are left out by importance sampling: an answer within
    minutes, with its diagnostics. Then each run is left out in turn and predicted from the others, and so
    is the tail of each run: as many fits as there are runs, for each law. Log score, CRPS and coverage,
    with the standard errors of their differences, each run one observation. The weights of the stack are
    those that score best on the runs left out.

    FOLDER gets stack.nc, a fit in which every law has its share of the draws, for predict, decide,
    landmarks, summary, watch and validate forecast --model; NAME.nc, the fit of each law; scores.csv,
    runs.csv, points.csv, comparison.png and words.txt.

    \b
    Example:
    bayes-cpt compare data/cpt-lab --models cpt-replay,cpt-replay-printed -o comparison
    bayes-cpt compare data/cpt-lab --models cpt-replay,my-model.toml --quick

    \b
    Exit codes:
    0  done
    1  done, but a fit fails its diagnostics, or --quick cannot tell
    2  bad input: what is wrong, where, and the fix are on stderr

    Parameters
    ----------
    models : NAMES
        Models to compare, separated by commas: names, or .toml files of your own.
    quick
        Only the first answer: from one fit of each, no refits.
    draws
        Draws kept in each of the four chains of a fit [default: 1000].
    output : FOLDER
        Folder for tables (CSV), figures (PNG) and words. What is done is saved there, and a rerun goes on.
    """
    from bayes_cpt.report.numbers import left_out
    from bayes_cpt.report.numbers import listed as first_of
    from bayes_cpt.validate.comparison import STACK_FILE
    from bayes_cpt.validate.tasks import fit_path

    results = Results(output)
    loaded = bayes_cpt.read_study(study)
    with written.progress() as tell:
        result = bayes_cpt.compare(
            loaded,
            listed(models),
            runs=listed(runs) or None,
            tails=read_shares(tails),
            quick=quick,
            draws=draws,
            seed=seed,
            jobs=jobs,
            dask=dask,
            folder=output,
            progress=tell,
            first=None if quick else lambda loo: written.note(_first(loo)),
        )
    scores, loo = result.scores, result.curve_loo
    verdict, sentences = result.verdict(), result.sentences()
    parts: list[Part] = []
    if output is not None:
        results.paths |= {law: fit_path(output, law) for law in result.fits}
    if result.stack is not None:
        results.write("stack", STACK_FILE, result.stack.save)
    if scores is not None:
        rows = result.table()
        results.tables({"scores": rows, "runs": scores.log_scores, "points": scores.points})
        results.figures({"comparison": result.plot}, name="figure")
        what = rows["seen"].map(left_out)
        parts.append(Table.of("law_scores", rows.assign(what=what), best=scores.best))
    if not isinstance(loo, str):
        parts.append(Table.of("curve_loo", loo.table()))
    results.words(verdict, sentences)
    content = {
        "study": loaded.name,
        "models": list(result.fits),
        "trustworthy": not result.problems,
        "problems": result.problems,
        "weights": result.weights,
        "best": scores.best if scores is not None else None,
        "scores": [] if scores is None else result.table(),
        "without_refits": {"reason": loo} if isinstance(loo, str) else loo.table(),
        "sentences": sentences,
    }
    named = first_of(result.problems, NAMED)
    problems = [f"Not trustworthy: {named}"] if named else []
    return Answer(content, verdict, [*parts, *in_words(sentences)], problems, written=[results])


def _first(loo: "CurveLoo | str") -> str:
    """Return the first answer, which is told while the refits run."""
    from bayes_cpt.report.words import sentence

    return sentence("compare.txt", "first", {"loo": loo, "reason": isinstance(loo, str)})
