"""`bayes-cpt validate`: whether posteriors and forecasts are as sure as they should be."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayes_cpt.cli.options import ChainDraws, command, listed, read_shares
from bayes_cpt.cli.output import Answer, Output, Part, Results, heading
from bayes_cpt.report.tables import Table

if TYPE_CHECKING:
    import pandas as pd

    from bayes_cpt.model.spec import ModelSpec
    from bayes_cpt.study.study import Study

SCORES = (
    "on=domain | method | points:text | in 50/\n80/90 %=inside:text | ±=inside_error:2 | CRPS=crps:.4f | "
    "mean\nerror=mae:.4f | bias:.4f | 90 %\nwidth=width_90:.4f"
)
FEWEST = 10


def validate() -> None:
    r"""See whether posteriors and forecasts are as sure as they should be.

    \b
    Example:
    bayes-cpt validate forecast data/cpt-lab -o validation
    bayes-cpt validate sbc --model pretrain -n 300 -o sbc-pretrain
    """


@command
def forecast(
    written: Output,
    study: Path,
    *,
    model: str = "cpt-replay",
    runs: str | None = None,
    whole: bool = True,
    tails: str = "0.25,0.5,0.75",
    held_out: Path | None = None,
    baseline: bool = True,
    draws: ChainDraws = None,
    jobs: int | None = None,
    dask: str | None = None,
    seed: int = 0,
    output: Path | None = None,
) -> Answer:
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

    Parameters
    ----------
    whole
        Leave each run out in turn.
    held_out : STUDY
        Predict the runs of this other study in place of all that.
    baseline
        Score the paper's method too: Huber log loss from many starts, residual bootstrap.
    draws
        Draws kept in each of the four chains of a fit [default: 1000].
    output : FOLDER
        Folder for tables (CSV), figures (PNG) and words. What is done is saved there, and a rerun goes on.
    """
    from bayes_cpt.report.forecasts import held_out_verdict
    from bayes_cpt.report.page import pooled
    from bayes_cpt.study.folder import read_study
    from bayes_cpt.validate.folds import check_folds, held_out_folds, other_study
    from bayes_cpt.validate.held_out import (
        OURS,
        PAPER,
        TABLES,
        package_method,
        paper_answer,
        score_folds,
        score_table,
    )
    from bayes_cpt.validate.tasks import Pool, Records, described

    shares, (specs, weights) = read_shares(tails), _laws(model)
    loaded = read_study(study)
    if held_out:
        folds = other_study(loaded, read_study(held_out), specs[0])
    else:
        folds = held_out_folds(loaded, specs[0], listed(runs) or None, shares, whole=whole)
    check_folds(folds, specs[0])
    results = Results(output)
    settings = described(specs, seed, study=loaded.digest(), draws=draws)
    name = settings["model"]
    if len(specs) > 1:
        settings["weights"] = [round(weight, 6) for weight in weights]
        name = f"a stack of {name}"
    method = partial(package_method, specs=specs, weights=weights)
    notes = []
    if baseline and len(loaded.targets) > 1:
        baseline = False
        notes = [
            "The paper's method is for one target: this study has several, and it is left out."
        ]
    pool = Pool(jobs, dask)
    cores = pool.cores(len(folds) * (1 + baseline))
    with written.progress() as tell:
        points, refits = score_folds(
            folds,
            ({PAPER: paper_answer} if baseline else {})
            | {OURS: partial(method, draws=draws, cores=cores)},
            seed,
            pool=pool,
            records=Records.open(results.made(), settings, TABLES),
            progress=tell,
        )
    bad = refits[~refits["trustworthy"].astype(bool)]
    spent = refits.groupby("method", sort=False)["seconds"].sum()
    times = ", ".join(f"{method} {seconds:.0f} s" for method, seconds in spent.items())
    content: dict[str, Any] = {
        "study": loaded.name,
        "model": settings["model"],
        "seed": seed,
        "trustworthy": bad.empty,
        "refits": refits,
    }
    parts: list[Part] = [
        heading(f"Forecasts of held-out runs: {name} on {loaded.name}"),
        f"{len(refits)} refits ({times}); {len(bad)} of them fail their diagnostics.",
    ]
    if len(points):
        scores = score_table(points)
        content["verdict"] = held_out_verdict(pooled(scores), points, refits)
        content |= _written(results, points, scores)
        parts += [*_scores(points, scores, content["horizons"]), *results.said]
    problems = [
        f"Not trustworthy: {row['method']}, {row['fold']}: {row['problems']}"
        for row in bad.to_dict("records")
    ]
    return Answer(content, content.get("verdict", []), parts, problems, notes)


def _laws(model: str) -> "tuple[list[ModelSpec], tuple[float, ...]]":
    """Return the laws of a model, or of the file of a stack, with their weights."""
    from bayes_cpt.inference.posterior import load
    from bayes_cpt.model.spec import read_spec

    if Path(model).suffix != ".nc":
        return [read_spec(model)], (1.0,)
    posterior = load(model)
    return [law.frame.spec for law in posterior.laws], posterior.weights


def _written(results: Results, points: "pd.DataFrame", scores: "pd.DataFrame") -> dict[str, Any]:
    """Write scores and figures beside the tables of the refits, and return their JSON."""
    from bayes_cpt import plots
    from bayes_cpt.validate.held_out import horizon_table

    tables = {"scores": scores, "horizons": horizon_table(points)}
    _kept(results, "points", "refits")
    results.tables(tables)
    parts: dict[str, Any] = {
        "coverage-runs": (points[points["seen"] == 0], "share"),
        "coverage-tails": (points[points["seen"] > 0], "ratio"),
    }
    results.figures(
        {name: partial(plots.coverage, *part) for name, part in parts.items() if len(part[0])}
    )
    return tables | {"files": results.files}


def _kept(results: Results, *tables: str) -> None:
    """Count tables that grew with the refits among the files."""
    if results.folder is not None:
        results.paths |= {name: results.folder / f"{name}.csv" for name in tables}


def _scores(points: "pd.DataFrame", scores: "pd.DataFrame", horizons: "pd.DataFrame") -> list[Part]:
    from bayes_cpt.report.forecasts import left_out
    from bayes_cpt.report.results import with_coverage
    from bayes_cpt.validate.scores import ALL_DOMAINS, ALL_RUNS, EQUAL_RUNS

    alone = points["domain"].nunique() == 1
    shown = (scores["run"] == ALL_RUNS) & ~(alone & (scores["domain"] == ALL_DOMAINS))
    all_points = scores[shown].assign(**{"left out": scores["seen"].map(left_out)})
    runs = scores[~scores["run"].isin([ALL_RUNS, EQUAL_RUNS]) & (scores["seen"] == 0)]
    tables = (
        ("All points", "left out", all_points),
        ("Run by run, each left out as a whole", "run", runs),
        (
            "Whole runs, by the place in the run",
            "horizon",
            horizons[horizons["axis"] == "share"],
        ),
        (
            "Tails, by the step over the last one that was fitted",
            "horizon",
            horizons[horizons["axis"] == "ratio"],
        ),
    )
    return [
        *(
            Table(title, with_coverage(rows), f"{first} | {SCORES}", group=first, close=True)
            for title, first, rows in tables
            if len(rows)
        ),
        "\nLosses in nats/token; error and bias are those of the median. ± is the standard error of "
        "the share in the 90 % bands, each run one observation. After N %: of the steps.",
    ]


@command
def sbc(
    written: Output,
    *,
    model: str = "cpt-replay",
    simulations: Annotated[int, typer.Option("-n", "--simulations", min=FEWEST)] = 300,
    design: Path | None = None,
    plan: Path | None = None,
    points: Annotated[int, typer.Option(min=3)] = 12,
    jobs: int | None = None,
    dask: str | None = None,
    seed: int = 0,
    output: Path | None = None,
) -> Answer:
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

    Parameters
    ----------
    simulations
        Simulated studies to fit.
    design : STUDY
        Runs to simulate: a study, or one TOML file of runs, with their bases [default: the bundled study].
    plan : PLAN
        Runs whose final loss is predicted from each fit [default: a run of the design, three times as
        long].
    points
        Points of each simulated curve at the most.
    output : FOLDER
        Folder for tables (CSV), figures (PNG) and words. What is done is saved there, and a rerun goes on.
    """
    from bayes_cpt import plots
    from bayes_cpt.bundled import bundled_study
    from bayes_cpt.identify.prior_predictive import read_design
    from bayes_cpt.model.spec import read_spec
    from bayes_cpt.report.forecasts import sbc_words
    from bayes_cpt.validate import calibration
    from bayes_cpt.validate.tasks import Pool, Records, described

    spec = read_spec(model)
    source = read_design(design or bundled_study())
    simulated = calibration.design_study(source, spec, points)
    whole, held_out = _with_plan(simulated, plan)
    results, pool = Results(output), Pool(jobs, dask)
    settings = described([spec], seed, design=whole.digest(), ranked=calibration.RANKED)
    with written.progress() as tell:
        ranks = calibration.simulated_ranks(
            calibration.ModelReplicates(spec, whole, held_out, pool.cores(simulations)),
            simulations,
            seed,
            pool=pool,
            records=Records.open(results.made(), settings, calibration.TABLES),
            progress=tell,
        )
    verdict = calibration.verdict(ranks)
    said = sbc_words(spec.name, simulated, verdict)
    _kept(results, "ranks")
    results.tables({"verdict": verdict.quantities})
    if len(verdict.quantities):
        draw = partial(plots.calibration, calibration.quantity_ranks(ranks))
        results.figures({"ranks": draw}, name="{}_figure")
    content = {
        "model": spec.name,
        "design": simulated.name,
        "seed": seed,
        "verdict": said.verdict,
        **vars(verdict),
        "passed": verdict.passed,
        "files": results.files,
    }
    problems = [f"Not calibrated: {problem}." for problem in verdict.problems]
    title = heading(f"Simulation-based calibration of {spec.name}")
    parts = [title, *said.sentences, *_outside(verdict.quantities), *results.said]
    return Answer(content, said.verdict, parts, problems)


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


def _outside(quantities: "pd.DataFrame") -> list[Part]:
    """Return the quantities that leave their own bands; nothing without any."""
    from bayes_cpt.validate.calibration import FAILS, HOLDS

    rows = quantities[quantities["verdict"] != HOLDS]
    if rows.empty:
        return []
    rows = rows.sort_values("verdict", ascending=False, kind="stable")
    cells = "quantity | verdict | mean rank=mean:.3f | spread:.3f"
    note = "A mean rank above 0.5: posteriors lie too low. A spread above 1: they are too narrow"
    title = "Quantities outside their own 95 % band"
    return [Table(title, rows, cells, note=note, marked=rows["verdict"] == FAILS)]
