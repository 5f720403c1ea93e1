"""`bayes-cpt validate`: whether forecasts are as sure as they should be."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import bayes_cpt
from bayes_cpt.cli.options import ChainDraws, command, listed, read_shares
from bayes_cpt.cli.output import Answer, Output, Part, Results, heading

if TYPE_CHECKING:
    from bayes_cpt.model.spec import ModelSpec


def validate() -> None:
    r"""See whether forecasts are as sure as they should be.

    \b
    Example:
    bayes-cpt validate forecast data/cpt-lab -o validation
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
    draws
        Draws kept in each of the four chains of a fit [default: 1000].
    output : FOLDER
        Folder for tables (CSV), figures (PNG) and words. What is done is saved there, and a rerun goes on.
    """
    from bayes_cpt.report.forecasts import held_out_verdict
    from bayes_cpt.report.page import pooled
    from bayes_cpt.report.results import scores_table
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
    pool = Pool(jobs, dask)
    cores = pool.cores(len(folds))
    method = partial(scored.package_method, specs=specs, weights=weights, draws=draws, cores=cores)
    with written.progress() as tell:
        points, refits = scored.score_folds(
            folds,
            {scored.OURS: method},
            seed,
            pool=pool,
            records=Records.open(results.folder, settings, scored.TABLES),
            progress=tell,
        )
    bad = refits[~refits["trustworthy"].astype(bool)]
    content: dict[str, Any] = {
        "study": loaded.name,
        "model": settings["model"],
        "trustworthy": bad.empty,
        "refits": refits,
    }
    verdict: list[str] = []
    parts: list[Part] = [
        heading(f"Forecasts of held-out runs: {name} on {loaded.name}"),
        f"{len(refits)} refits, {refits['seconds'].sum():.0f} s; {len(bad)} fail their diagnostics.",
    ]
    if len(points):
        scores, horizons = scored.score_table(points), scored.horizon_table(points)
        verdict = held_out_verdict(pooled(scores), points, refits)
        results.tables({"scores": scores, "horizons": horizons}, "points", "refits")
        draw, untouched = bayes_cpt.plots.coverage, points["seen"].eq(0)
        if untouched.any():
            results.figures({"coverage-runs": partial(draw, points[untouched], "share")})
        if not untouched.all():
            results.figures({"coverage-tails": partial(draw, points[~untouched], "ratio")})
        content |= {"scores": scores, "horizons": horizons}
        by_run = scores[~scores["run"].isin([ALL_RUNS, EQUAL_RUNS]) & (scores["seen"] == 0)]
        parts += [
            scores_table(pooled(scores)),
            scores_table(by_run, "run", "Run by run, each left out as a whole"),
            scores_table(
                horizons,
                "horizon",
                "By the place in the run, and the step over the last one fitted",
            ),
        ]
    problems = [
        f"Not trustworthy: {row['fold']}: {row['problems']}" for row in bad.to_dict("records")
    ]
    return Answer(content, verdict, parts, problems, written=[results])


def _laws(model: str) -> "tuple[list[ModelSpec], tuple[float, ...]]":
    """Return the laws of a model, or of the file of a stack, with their weights."""
    if Path(model).suffix != ".nc":
        return [bayes_cpt.read_spec(model)], (1.0,)
    posterior = bayes_cpt.load(model)
    return [law.frame.spec for law in posterior.laws], posterior.weights
