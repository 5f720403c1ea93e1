"""`bayes-cpt validate`: whether posteriors and forecasts are as sure as they should be."""

import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayes_cpt.cli.options import (
    Dask,
    Jobs,
    Json,
    Model,
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
from bayes_cpt.cli.output import Output, Results, make_folder
from bayes_cpt.cli.running import check_fittable

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from bayes_cpt.model.spec import ModelSpec
    from bayes_cpt.study.study import Study
    from bayes_cpt.validate.calibration import Verdict
    from bayes_cpt.validate.folds import Fold

SCORES = (
    "on=domain | method | points:text | in 50/\n80/90 %=inside:text | ±=error:2 | CRPS=crps:.4f | "
    "mean\nerror=mae:.4f | bias:.4f | 90 %\nwidth=width_90:.4f"
)
FEWEST = 10
# Above this share of studies with losses below 0 the priors are at fault.
MOST_REFUSED = 0.01
TOO_WIDE = " It should be less than 1 %: the priors are too wide for these losses."


def validate() -> None:
    r"""See whether posteriors and forecasts are as sure as they should be.

    \b
    Example:
    bayes-cpt validate forecast data/cpt-lab -o validation
    bayes-cpt validate sbc --model pretrain -n 300 -o sbc-pretrain
    """


def settings(specs: "Sequence[ModelSpec]", seed: int, **others: Any) -> dict[str, Any]:
    """Return all that results depend on: results with other settings must not be mixed with them."""
    from bayes_cpt.validate.tasks import described

    return described(specs) | {"seed": seed} | others


def read_shares(text: str) -> tuple[float, ...]:
    """Return the shares of a list such as 0.25,0.5; none of the word none."""
    if text == "none":
        return ()
    try:
        shares = tuple(float(part) for part in text.split(","))
    except ValueError:
        shares = (0.0,)
    if not all(0 < share < 1 for share in shares):
        raise typer.BadParameter(f"{text!r} is not a list of shares: write 0.25,0.5,0.75, or none.")
    return shares


def forecast(
    study: StudyFolder,
    model: Model = "cpt-replay",
    runs: RunNames = None,
    whole: Annotated[
        bool, typer.Option("--whole/--no-whole", help="Leave each run out in turn.")
    ] = True,
    tails: Tails = "0.25,0.5,0.75",
    elsewhere: Annotated[
        Path | None,
        option("STUDY", "Predict the runs of this other study in place of all that.", "--held-out"),
    ] = None,
    baseline: Annotated[
        bool,
        typer.Option(
            "--baseline/--no-baseline",
            help="Score the paper's method too: Huber log loss from many starts, residual bootstrap.",
        ),
    ] = True,
    draws: RefitDraws = None,
    jobs: Jobs = None,
    dask: Dask = None,
    seed: Seed = 0,
    output: WorkFolder = None,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    r"""Score forecasts of held-out runs.

    Leaves each run out in turn and predicts it from the others; then fits all runs, one of them only up to
    a share of its steps, and predicts its tail. Says how many points lie in the bands, the CRPS, the mean
    error and the bias of the median, and the width of the 90 % bands: per run, validation set and horizon.
    With --model stack.nc, of bayes-cpt compare, each law is fitted anew and has its weight in the forecast.
    Every refit takes as long as a fit. Numbers do not depend on --jobs and --dask.

    FOLDER gets points.csv (every point, with its PIT), refits.csv, scores.csv, horizons.csv and figures
    of coverage and PIT.

    \b
    Example:
    bayes-cpt validate forecast data/cpt-lab -o validation

    \b
    Exit codes:
    0  done
    1  done, but a refit fails its diagnostics
    2  bad input: what is wrong, where, and the fix are on stderr
    """
    from bayes_cpt.report.forecasts import held_out_verdict
    from bayes_cpt.report.page import pooled
    from bayes_cpt.study.folder import read_study
    from bayes_cpt.validate import held_out
    from bayes_cpt.validate.tasks import Pool, Records

    written = Output(quiet, json)
    shares, (specs, weights) = read_shares(tails), _laws(model)
    spec = specs[0]
    with written.cautions():
        loaded = read_study(study)
        other = read_study(elsewhere) if elsewhere else None
    folds = _folds(loaded, other, spec, listed(runs) or None, whole, shares)
    if output is not None:
        make_folder(output)
    described = settings(specs, seed, study=loaded.digest(), draws=draws)
    if len(specs) > 1:
        described["weights"] = [round(weight, 6) for weight in weights]
    pool = Pool(jobs, dask)
    if baseline and len(loaded.targets) > 1:
        written.note(
            "The paper's method is for one target: this study has several, and it is left out."
        )
        baseline = False
    methods: dict[str, held_out.Method] = {}
    if baseline:
        methods[held_out.PAPER] = held_out.paper_answer
    cores = pool.cores(len(folds) * (1 + baseline))
    of_law = partial(held_out.package_method, spec=spec)
    of_stack = partial(held_out.stack_method, specs=specs, weights=weights)
    method = of_law if len(specs) == 1 else of_stack
    methods[held_out.OURS] = partial(method, draws=draws, cores=cores)
    records = Records.open(output, described, held_out.TABLES)
    with written.progress() as tell:
        points, refits = held_out.score_folds(
            folds, methods, seed, pool=pool, records=records, progress=tell
        )
    content: dict[str, Any] = {
        "study": loaded.name,
        "model": described["model"],
        "seed": seed,
        "trustworthy": bool(refits["trustworthy"].astype(bool).all()),
        "refits": refits,
    }
    name = described["model"] if len(specs) == 1 else f"a stack of {described['model']}"
    scores = held_out.score_table(points) if len(points) else points
    if len(points):
        content["verdict"] = held_out_verdict(pooled(scores), points, refits)
        written.verdict(content["verdict"])
    written.heading(f"Forecasts of held-out runs: {name} on {loaded.name}")
    _show_refits(written, refits)
    if len(points):
        content |= _show_and_write(written, points, scores, output)
    written.result(content)
    return 0 if content["trustworthy"] else 1


def _folds(
    study: "Study",
    other: "Study | None",
    spec: "ModelSpec",
    runs: Sequence[str] | None,
    whole: bool,
    shares: Sequence[float],
) -> "list[Fold]":
    from bayes_cpt.errors import StudyWarning
    from bayes_cpt.validate.folds import leave_run_out, leave_tail_out, other_study

    if other is not None:
        folds = other_study(study, other, spec)
    else:
        folds = leave_run_out(study, spec, runs) if whole else []
        for share in shares:
            folds += leave_tail_out(study, spec, share, runs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StudyWarning)
        for fold in folds:
            # What cannot be fitted is said before the long refits.
            check_fittable(spec, fold.question.study)
    if not folds:
        raise typer.BadParameter(
            "there is nothing to predict: no point was measured where it is asked for. "
            "Leave out whole runs, or other shares of --tails."
        )
    return folds


def _laws(model: str) -> "tuple[list[ModelSpec], tuple[float, ...]]":
    """Return the laws of a model, or of the file of a stack, with their weights."""
    from bayes_cpt.inference.posterior import load
    from bayes_cpt.model.spec import read_spec

    if Path(model).suffix != ".nc":
        return [read_spec(model)], (1.0,)
    posterior = load(model)
    return [law.frame.spec for law in posterior.laws], posterior.weights


def _show_refits(written: Output, refits: "pd.DataFrame") -> None:
    bad = refits[~refits["trustworthy"].astype(bool)]
    spent = refits.groupby("method", sort=False)["seconds"].sum()
    times = ", ".join(f"{method} {seconds:.0f} s" for method, seconds in spent.items())
    written.text(f"{len(refits)} refits ({times}); {len(bad)} of them fail their diagnostics.")
    for row in bad.to_dict("records"):
        written.error(f"Not trustworthy: {row['method']}, {row['fold']}: {row['problems']}")


def _show_and_write(
    written: Output, points: "pd.DataFrame", scores: "pd.DataFrame", output: Path | None
) -> dict[str, Any]:
    """Show the scores, write them, and return what machines are told of them."""
    from bayes_cpt.report.forecasts import left_out
    from bayes_cpt.validate.held_out import horizon_table
    from bayes_cpt.validate.scores import ALL_DOMAINS, ALL_RUNS, EQUAL_RUNS

    horizons = horizon_table(points)
    pooled = scores["run"].isin([ALL_RUNS, EQUAL_RUNS])
    written.heading("All points")
    alone = points["domain"].nunique() == 1
    shown = (scores["run"] == ALL_RUNS) & ~(alone & (scores["domain"] == ALL_DOMAINS))
    _table(written, scores[shown].assign(**{"left out": scores["seen"].map(left_out)}), "left out")
    runs = scores[~pooled & (scores["seen"] == 0)]
    if len(runs):
        written.heading("Run by run, each left out as a whole")
        _table(written, runs, "run")
    for axis, title in (
        ("share", "Whole runs, by the place in the run"),
        ("ratio", "Tails, by the step over the last one that was fitted"),
    ):
        along = horizons[horizons["axis"] == axis]
        if len(along):
            written.heading(title)
            _table(written, along, "horizon")
    written.text(
        "\nLosses in nats/token; error and bias are those of the median. ± is the standard error of "
        "the share in the 90 % bands, each run one observation. After N %: of the steps."
    )
    figures = {}
    if output:
        from bayes_cpt import plots

        whole, tails = points[points["seen"] == 0], points[points["seen"] > 0]
        if len(whole):
            figures["coverage-runs"] = plots.coverage(whole, "share")
        if len(tails):
            figures["coverage-tails"] = plots.coverage(tails, "ratio")
    tables = {"scores": scores, "horizons": horizons}
    return tables | {"files": _write(written, output, ("points", "refits"), tables, figures)}


def _table(written: Output, rows: "pd.DataFrame", first: str) -> None:
    from bayes_cpt.validate.scores import MASSES

    shares = [(100 * rows[f"coverage_{mass}"]).map("{:.0f}".format) for mass in MASSES]
    shown = rows.assign(
        inside=shares[0].str.cat(shares[1:], sep="/"), error=100 * rows["coverage_90_error"]
    )
    written.table(shown, f"{first} | {SCORES}", group=first, close=True)


def _write(
    written: Output,
    folder: Path | None,
    kept: tuple[str, ...],
    tables: "dict[str, pd.DataFrame]",
    figures: "dict[str, Figure]",
) -> dict[str, str]:
    """Write tables and figures beside the tables that grew with the refits, and name all of them."""
    if folder is None:
        return {}
    results = Results(folder)
    results.paths |= {name: folder / f"{name}.csv" for name in kept}
    results.tables(tables)
    for name, figure in figures.items():
        results.figure(name, figure, f"{name}.png")
    for path in results.paths.values():
        written.text(f"Written to {path}")
    return {path.name: str(path) for path in results.paths.values()}


def sbc(
    model: Model = "cpt-replay",
    simulations: Annotated[
        int, typer.Option("-n", "--simulations", min=FEWEST, help="Simulated studies to fit.")
    ] = 300,
    design: Annotated[
        Path | None,
        option(
            "STUDY",
            "Runs to simulate: a study, or one TOML file of runs, with their bases.",
            default="the bundled study",
        ),
    ] = None,
    plan: Annotated[
        Path | None,
        option(
            "PLAN",
            "Runs whose final loss is predicted from each fit.",
            default="a run of the design, three times as long",
        ),
    ] = None,
    points: Annotated[
        int, typer.Option(min=3, help="Points of each simulated curve at the most.")
    ] = 12,
    jobs: Jobs = None,
    dask: Dask = None,
    seed: Seed = 0,
    output: WorkFolder = None,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    r"""Check that posteriors of simulated studies hold the truth as often as they say.

    Draws parameters from the priors, simulates the losses of a study from them, fits the model again, and
    ranks each true value among posterior draws. If priors, simulator, density and sampler agree, ranks are
    uniform for every parameter and for the final loss of a run that was not simulated. The verdict allows
    for how many quantities there are: a calibrated model fails one time in twenty at the most.

    FOLDER gets ranks.csv, which grows as refits are done, verdict.csv and ranks.png. Run again with a
    larger -n to go on. Numbers do not depend on --jobs and --dask.

    \b
    Example:
    bayes-cpt validate sbc --model pretrain -n 300 -o sbc-pretrain

    \b
    Exit codes:
    0  the model is calibrated as far as so many simulations can tell
    1  it is not, or more than 5 % of the refits fail their diagnostics
    2  bad input: what is wrong, where, and the fix are on stderr
    """
    from bayes_cpt.bundled import bundled_study
    from bayes_cpt.model.spec import read_spec
    from bayes_cpt.report.forecasts import sbc_verdict
    from bayes_cpt.validate import calibration
    from bayes_cpt.validate.calibration import RANKED, ModelReplicates, design_study, read_design
    from bayes_cpt.validate.tasks import Pool, Records

    written = Output(quiet, json)
    spec = read_spec(model)
    with written.cautions():
        source = read_design(design or bundled_study())
        simulated = design_study(source, spec, points)
        whole, held_out = _with_plan(simulated, plan)
    if output is not None:
        make_folder(output)
    described = settings([spec], seed, design=whole.digest(), ranked=RANKED)
    pool = Pool(jobs, dask)
    replicate = ModelReplicates(spec, whole, held_out, pool.cores(simulations))
    records = Records.open(output, described, calibration.TABLES)
    with written.progress() as tell:
        ranks = calibration.simulated_ranks(
            replicate, simulations, seed, pool=pool, records=records, progress=tell
        )
    verdict = calibration.verdict(ranks)
    said = sbc_verdict(spec.name, simulated.name, verdict)
    for problem in verdict.problems:
        written.error(f"Not calibrated: {problem}.")
    written.verdict(said)
    _show_ranks(written, spec, simulated, verdict)
    figures = {}
    if output and len(verdict.quantities):
        from bayes_cpt import plots

        figures["ranks"] = plots.calibration(calibration.quantity_ranks(ranks))
    files = _write(written, output, ("ranks",), {"verdict": verdict.quantities}, figures)
    written.result(
        {
            "model": spec.name,
            "design": simulated.name,
            "seed": seed,
            "verdict": said,
            "simulations": verdict.simulations,
            "failed": verdict.failed,
            "untrusted": verdict.untrusted,
            "refused": verdict.refused,
            "passed": verdict.passed,
            "problems": list(verdict.problems),
            "quantities": verdict.quantities,
            "files": files,
        }
    )
    return 0 if verdict.passed else 1


def _with_plan(design: "Study", plan: Path | None) -> "tuple[Study, tuple[str, ...]]":
    """Return the design with the runs to predict, and their names."""
    from bayes_cpt.study.folder import read_plan
    from bayes_cpt.validate.calibration import held_out_run, with_runs

    if plan is None:
        whole = with_runs(design, [held_out_run(design)])
    else:
        planned = read_plan(plan, design)
        whole = with_runs(design, planned.runs, planned.bases)
    return whole, tuple(run.name for run in whole.runs[len(design.runs) :])


def _show_ranks(written: Output, spec: "ModelSpec", design: "Study", verdict: "Verdict") -> None:
    from bayes_cpt.validate.calibration import FAILS, HOLDS, RANKED

    judged = verdict.quantities
    written.heading(f"Simulation-based calibration of {spec.name}")
    trusted = verdict.simulations - verdict.failed - verdict.untrusted
    written.text(
        f"{verdict.simulations} simulated studies of {len(design.runs)} runs and "
        f"{len(design.losses)} points (design {design.name}), each fitted again. {trusted} refits meet "
        f"their diagnostics, {verdict.untrusted} do not (their ranks count as well), {verdict.failed} "
        f"failed. Truths are ranked among {RANKED} posterior draws."
    )
    if verdict.refused > 0:
        written.text(
            f"{verdict.refused:.1%} of the studies that the priors made held a loss below 0 and were drawn "
            "again, truth and losses together: that leaves ranks uniform."
            + (TOO_WIDE if verdict.refused > MOST_REFUSED else "")
        )
    outside = judged[judged["verdict"] != HOLDS]
    if len(outside):
        written.heading("Quantities outside their own 95 % band")
        rows = outside.sort_values("verdict", ascending=False, kind="stable")
        cells = "quantity | verdict | mean rank=mean:.3f | spread:.3f"
        written.table(rows, cells, marked=rows["verdict"] == FAILS)
        written.text(
            "A mean rank above 0.5: posteriors lie too low. A spread above 1: they are too narrow."
        )
