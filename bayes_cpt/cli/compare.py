"""`bayes-cpt compare`: which of several laws predicts held-out runs best, and a stack of them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayes_cpt.cli.options import (
    Dask,
    Jobs,
    Json,
    Quiet,
    RefitDraws,
    RunNames,
    Seed,
    StudyFolder,
    Tails,
    WorkFolder,
    listed,
    option,
)
from bayes_cpt.cli.output import Output, Results, make_folder, write
from bayes_cpt.cli.running import check_fittable
from bayes_cpt.cli.validate import read_shares

if TYPE_CHECKING:
    import pandas as pd

    from bayes_cpt.validate.comparison import Comparison, CurveLoo


def compare(
    study: StudyFolder,
    models: Annotated[
        str,
        option(
            "NAMES", "Models to compare, separated by commas: names, or .toml files of your own."
        ),
    ],
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Only the first answer: from one fit of each, no refits."),
    ] = False,
    runs: RunNames = None,
    tails: Tails = "0.5",
    baselines: Annotated[
        str | None,
        option(
            "NAMES",
            "Laws of final losses to score beside them at the last loss of each run left out: "
            "d-cpt, data-mixing, or both separated by a comma.",
        ),
    ] = None,
    draws: RefitDraws = None,
    jobs: Jobs = None,
    dask: Dask = None,
    seed: Seed = 0,
    output: WorkFolder = None,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    r"""Compare laws on a study, and stack them.

    First each law is fitted once, and curves are left out by importance sampling: an answer within
    minutes, with its diagnostics. Then each run is left out in turn and predicted from the others, and so
    is the tail of each run: as many fits as there are runs, for each law. Log score, CRPS and coverage,
    with the standard errors of their differences, each run one observation. The weights of the stack are
    those that score best on the runs left out. With --baselines the D-CPT law and the data-mixing law
    stand beside them where they say something: at the last losses of the runs left out.

    FOLDER gets stack.nc, a fit in which every law has its share of the draws, for predict, decide,
    landmarks, summary, watch and validate forecast --model; NAME.nc, the fit of each law; scores.csv,
    last_losses.csv, runs.csv, points.csv, comparison.png and words.txt.

    \b
    Example:
    bayes-cpt compare data/cpt-lab --models cpt-replay,cpt-replay-printed --quick -o comparison
    bayes-cpt compare data/cpt-lab --models cpt-replay,cpt-replay-printed --baselines d-cpt,data-mixing

    \b
    Exit codes:
    0  done
    1  done, but a fit fails its diagnostics, or --quick cannot tell
    2  bad input: what is wrong, where, and the fix are on stderr
    """
    from bayes_cpt.study.folder import read_study
    from bayes_cpt.validate.comparison import compare as compare_laws
    from bayes_cpt.validate.comparison import (
        comparison_folds,
        last_losses_of,
        read_baselines,
        read_models,
    )

    written = Output(quiet, json)
    shares = read_shares(tails)
    specs = read_models(list(listed(models)))
    others = read_baselines(list(listed(baselines)), specs)
    if quick and others:
        raise typer.BadParameter("--baselines are scored on runs left out: leave --quick out.")
    with written.cautions():
        loaded = read_study(study)
    chosen = listed(runs) or None
    with written.cautions():
        for spec in specs.values():
            check_fittable(spec, loaded)
    if not quick:
        # What cannot be left out is said before the long fits.
        folds = comparison_folds(loaded, specs, chosen, shares)
        if others:
            last_losses_of(folds, others)
    if output is not None:
        make_folder(output)
    with written.progress() as tell:
        result = compare_laws(
            loaded,
            list(specs.values()),
            runs=chosen,
            tails=shares,
            baselines=others,
            quick=quick,
            draws=draws,
            seed=seed,
            jobs=jobs,
            dask=dask,
            folder=output,
            progress=tell,
            first=None if quick else lambda loo: _first(written, loo),
        )
    results = _write(result, output) if output is not None else None
    _show(written, result)
    if results is not None:
        results.say(written)
    written.result(_content(result, results.files if results else {}))
    return 1 if result.problems else 0


def _first(written: Output, loo: "CurveLoo | str") -> None:
    """Tell the first answer while the refits run."""
    if isinstance(loo, str):
        written.note(f"No answer before the refits: {loo}.")
        return
    doubt = "" if loo.holds else ", but Pareto k is too large in some curves to rely on that"
    written.note(f"By the fits alone {loo.best} predicts best{doubt}. Runs are now left out.")


def _show(written: Output, result: "Comparison") -> None:
    written.verdict(result.verdict())
    if result.scores is not None:
        table = _covered(result.table())
        for seen, rows in table.groupby("seen", sort=False):
            after = float(str(seen))
            what = f"What follows {100 * after:g} % of a run's steps" if after else "Whole runs"
            written.heading(f"{what}, held out")
            written.table(rows, _SCORES, close=True)
        written.text(
            f"\nLog score: nats per run beside {result.scores.best}, more is better; CRPS: nats/token, "
            "less is better. ± is the standard error, each run one observation."
        )
    if result.last_losses is not None:
        written.heading(f"Last losses of {result.last_losses.runs} held-out runs")
        written.table(_covered(result.last_losses.table()), _LAST_LOSSES)
        written.text("\nCRPS and mean error of the median: nats/token, less is better.")
    if not isinstance(result.curve_loo, str):
        written.heading("Curves left out by importance sampling, without refits")
        written.table(_loo(result.curve_loo), _LOO)
    for problem in result.problems:
        written.error(f"Not trustworthy: {problem}")
    written.words(result.sentences())


def _loo(loo: "CurveLoo") -> "pd.DataFrame":
    import pandas as pd

    rows = [(law, gap.mean, gap.error, loo.doubtful[law]) for law, gap in loo.differences().items()]
    return pd.DataFrame(rows, columns=["law", "mean", "error", "doubtful"])


_CRPS = "CRPS=crps:.4f | beside=crps_difference:+.4f | ± =crps_error:2"
_COVERAGE = "in 50/\n90 %=covered:text |  ±=covered_error:2"
_SCORES = (
    f"law=method | weight:% | log score=log_score_difference:+.1f | ±=log_score_error:2 | {_CRPS} | "
    f"{_COVERAGE}"
)
_LAST_LOSSES = f"=method | {_CRPS} | mean\nerror=mae:.4f | {_COVERAGE}"
_LOO = "law | log score=mean:+.1f | ±=error:2 | curves with\nlarge Pareto k=doubtful:text"


def _covered(table: "pd.DataFrame") -> "pd.DataFrame":
    """Return scores with the shares of points in both bands as one text."""
    shares = [(100 * table[f"coverage_{mass}"]).map("{:.0f}".format) for mass in (50, 90)]
    return table.assign(
        covered=shares[0] + "/" + shares[1], covered_error=100 * table["coverage_90_error"]
    )


def _write(result: "Comparison", folder: Path) -> Results:
    """Write stack, tables, figure and words; the fits are there already."""
    from bayes_cpt.validate.comparison import STACK_FILE

    results = Results(folder)
    if result.stack is not None:
        results.paths["stack"] = folder / STACK_FILE
        write(results.paths["stack"], result.stack.save)
    results.paths |= {law: folder / f"{law}.nc" for law in result.fits}
    scores = result.scores
    if scores is not None:
        tables = {"scores": result.table(), "runs": scores.log_scores}
        results.tables(tables | {"points": scores.points})
    if result.last_losses is not None:
        results.tables({"last_losses": result.last_losses.table()})
    if scores is not None or not isinstance(result.curve_loo, str):
        results.figure("figure", result.plot(), "comparison.png")
    results.words(["\n".join(result.verdict()), *result.sentences()])
    return results


def _content(result: "Comparison", files: dict[str, str]) -> dict[str, Any]:
    """Return what machines are told."""
    loo, scores, last = result.curve_loo, result.scores, result.last_losses
    first: dict[str, Any] = {"reason": loo}
    if not isinstance(loo, str):
        gaps = {law: gap._asdict() for law, gap in loo.differences().items()}
        first = {"best": loo.best, "differences": gaps, "weights": loo.weights}
        first |= {"large_pareto_k": loo.doubtful, "highest_k": loo.highest_k}
    return {
        "study": result.study.name,
        "models": list(result.fits),
        "seed": result.seed,
        "trustworthy": not result.problems,
        "problems": list(result.problems),
        "verdict": result.verdict(),
        "weights": result.weights,
        "best": scores.best if scores is not None else None,
        "scores": [] if scores is None else result.table(),
        "last_losses": [] if last is None else last.table(),
        "without_refits": first,
        "sentences": result.sentences(),
        "files": files,
    }
