"""`bayes-cpt validate`: whether posteriors and forecasts are as sure as they should be."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import bayes_cpt
from bayes_cpt.cli.options import ChainDraws, command, listed, read_shares
from bayes_cpt.cli.output import Answer, Output, Part, Results, heading
from bayes_cpt.report.tables import Table

if TYPE_CHECKING:
    from bayes_cpt.model.spec import ModelSpec
    from bayes_cpt.study.study import Study

SCORES = (
    "on=domain | method | points:text | in 50 %=coverage_50:% | in 90 %=coverage_90:% | "
    "±=coverage_90_error:% | CRPS=crps:.4f | mean\nerror=mae:.4f | bias:.4f | 90 %\nwidth=width_90:.4f"
)
OUTSIDE = "quantity | verdict | mean rank=mean:.3f | spread:.3f"
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
    from bayes_cpt.report.results import calibration_table
    from bayes_cpt.validate import held_out as scored
    from bayes_cpt.validate.folds import check_folds, held_out_folds, other_study
    from bayes_cpt.validate.scores import ALL_RUNS, EQUAL_RUNS
    from bayes_cpt.validate.tasks import Pool, Records, described

    shares, (specs, weights) = read_shares(tails), _laws(model)
    loaded = bayes_cpt.read_study(study)
    if held_out:
        folds = other_study(loaded, bayes_cpt.read_study(held_out), specs[0])
    else:
        after = (0.0, *shares) if whole else shares
        folds = held_out_folds(loaded, specs[0], listed(runs) or None, after)
    check_folds(folds, specs[0])
    results = Results(output)
    settings = described(specs, seed, study=loaded.digest(), draws=draws)
    name = settings["model"]
    if len(specs) > 1:
        settings["weights"] = [round(weight, 6) for weight in weights]
        name = f"a stack of {name}"
    notes = []
    if baseline and len(loaded.targets) > 1:
        baseline = False
        notes = [
            "The paper's method is for one target: this study has several, and it is left out."
        ]
    pool = Pool(jobs, dask)
    cores = pool.cores(len(folds) * (1 + baseline))
    method = partial(scored.package_method, specs=specs, weights=weights, draws=draws, cores=cores)
    with written.progress() as tell:
        points, refits = scored.score_folds(
            folds,
            ({scored.PAPER: scored.paper_answer} if baseline else {}) | {scored.OURS: method},
            seed,
            pool=pool,
            records=Records.open(results.folder, settings, scored.TABLES),
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
        scores, horizons = scored.score_table(points), scored.horizon_table(points)
        content["verdict"] = held_out_verdict(pooled(scores), points, refits)
        results.tables({"scores": scores, "horizons": horizons}, "points", "refits")
        draw, untouched = bayes_cpt.plots.coverage, points["seen"].eq(0)
        if untouched.any():
            results.figures({"coverage-runs": partial(draw, points[untouched], "share")})
        if not untouched.all():
            results.figures({"coverage-tails": partial(draw, points[~untouched], "ratio")})
        content |= {"scores": scores, "horizons": horizons, "files": results.files}
        by_run = scores[~scores["run"].isin([ALL_RUNS, EQUAL_RUNS]) & (scores["seen"] == 0)]
        parts.append(calibration_table(pooled(scores)))
        for title, first, rows in (
            ("Run by run, each left out as a whole", "run", by_run),
            ("By the place in the run, and the step over the last one fitted", "horizon", horizons),
        ):
            parts.append(Table(title, rows, f"{first} | {SCORES}", group=first, close=True))
        parts += ["\nError and bias are those of the median, nats/token.", *results.said]
    problems = [
        f"Not trustworthy: {row['method']}, {row['fold']}: {row['problems']}"
        for row in bad.to_dict("records")
    ]
    return Answer(content, content.get("verdict", []), parts, problems, notes)


def _laws(model: str) -> "tuple[list[ModelSpec], tuple[float, ...]]":
    """Return the laws of a model, or of the file of a stack, with their weights."""
    if Path(model).suffix != ".nc":
        return [bayes_cpt.read_spec(model)], (1.0,)
    posterior = bayes_cpt.load(model)
    return [law.frame.spec for law in posterior.laws], posterior.weights


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
    from bayes_cpt.identify.prior_predictive import read_design
    from bayes_cpt.report.forecasts import sbc_words
    from bayes_cpt.validate import calibration
    from bayes_cpt.validate.tasks import Pool, Records, described

    spec = bayes_cpt.read_spec(model)
    source = read_design(design or bayes_cpt.bundled_study())
    simulated = calibration.design_study(source, spec, points)
    whole = _with_plan(simulated, plan)
    held_out = tuple(run.name for run in whole.runs[len(simulated.runs) :])
    results, pool = Results(output), Pool(jobs, dask)
    settings = described([spec], seed, design=whole.digest(), ranked=calibration.RANKED)
    with written.progress() as tell:
        ranks = calibration.simulated_ranks(
            calibration.ModelReplicates(spec, whole, held_out, pool.cores(simulations)),
            simulations,
            seed,
            pool=pool,
            records=Records.open(results.folder, settings, calibration.TABLES),
            progress=tell,
        )
    verdict = calibration.verdict(ranks)
    quantities, said = verdict.quantities, sbc_words(spec.name, simulated, verdict)
    results.tables({"verdict": quantities}, "ranks")
    parts: list[Part] = [heading(f"Simulation-based calibration of {spec.name}"), *said.sentences]
    if len(quantities):
        draw = partial(bayes_cpt.plots.calibration, calibration.quantity_ranks(ranks))
        results.figures({"ranks": draw}, name="{}_figure")
        off = quantities[quantities["verdict"] != calibration.HOLDS]
        off = off.sort_values("verdict", ascending=False, kind="stable")
        note = (
            "A mean rank above 0.5: posteriors lie too low. A spread above 1: they are too narrow"
        )
        marked = off["verdict"] == calibration.FAILS
        title = "Quantities outside their own 95 % band"
        parts += [Table(title, off, OUTSIDE, note=note, marked=marked)] if len(off) else []
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
    return Answer(content, said.verdict, [*parts, *results.said], problems)


def _with_plan(design: "Study", plan: Path | None) -> "Study":
    """Return the design with the runs to predict after its own."""
    from bayes_cpt.validate.calibration import held_out_run, with_runs

    if plan is None:
        return with_runs(design, [held_out_run(design)])
    planned = bayes_cpt.read_plan(plan, design)
    return with_runs(design, planned.runs, planned.bases)
