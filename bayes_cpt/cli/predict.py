"""`bayes-cpt predict`: a fit and a plan in, loss curves with bands out."""

from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from bayes_cpt.cli.options import (
    Draws,
    FitFile,
    Interval,
    Json,
    Plan,
    Quiet,
    ScoresFile,
    Seed,
    listed,
    option,
    output_option,
)
from bayes_cpt.cli.output import (
    NUMBERS,
    TAKEN,
    Output,
    OutputFile,
    with_beyond,
    write,
    write_numbers,
)
from bayes_cpt.cli.running import about_fit, finish, warn

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from bayes_cpt.inference.posterior import Posterior
    from bayes_cpt.study.study import Study

SUFFIXES = (".csv", *NUMBERS, ".nc")


WORDS = {
    "new_run": "What a validation curve of a new run would show",
    "expected": "The law's mean curve",
    "known_run": "Runs of the fitted study, given their measured points",
}


class Kind(StrEnum):
    """What a band is about."""

    expected = "expected"
    new_run = "new_run"
    known_run = "known_run"


def predict(
    fit: FitFile,
    output: Annotated[
        Path,
        output_option(
            "OUT", "File to write: .csv, .parquet or .json for the bands, .nc for draws and bands."
        ),
    ],
    plan: Plan = None,
    kind: Annotated[
        Kind | None,
        option(None, "What the bands are about.", default="new_run, or known_run without a plan"),
    ] = None,
    interval: Interval = 0.9,
    at: Annotated[
        Path | None,
        option(
            "FILE", "CSV with columns run, step, domain: where.", default="about 200 steps a run"
        ),
    ] = None,
    sets: Annotated[
        str | None,
        option(
            "NAMES",
            "Other validation sets of the study to predict too (Eq. 6), separated by commas, or "
            "all.",
            "--sets",
        ),
    ] = None,
    scores: ScoresFile = None,
    draws: Draws = 1000,
    seed: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    r"""Predict the loss curves of runs that were never trained, with credible bands.

    OUT has one row per run, step and validation set, with the columns run, step, domain, mean, median,
    sd, lower, upper, kind, outside, interval: lower and upper hold the central mass in interval,
    outside says where the run leaves what the fit has seen. A .nc file holds the draws and these bands.

    A plan needs no losses: a TOML file of \[runs.NAME] tables in the form of study.toml is enough.
    Bases that the fitted study has need not be repeated.

    With --sets further validation sets of the study are predicted from general and target loss, their
    weights (Eq. 6) learnt from their own curves; a set that the linear form misses is told.

    With --scores, a CSV of losses and scores of checkpoints, scores of benchmarks are predicted through a
    monotone link and written beside OUT, as OUT-scores.csv.

    \b
    Kinds:
    new_run    what a validation curve of a new run would show
    expected   the law's mean curve alone
    known_run  a run of the fitted study, given its measured points

    \b
    Example:
    bayes-cpt predict fit.nc --plan plan.toml -o forecast.csv
    bayes-cpt predict fit.nc --plan plan.toml --sets code,maths -o forecast.csv

    \b
    Exit codes:
    0  done
    1  done, but the fit falls short of its diagnostics
    2  bad input: nothing is written
    """
    from bayes_cpt.forecast.bands import bands
    from bayes_cpt.forecast.plans import as_plan
    from bayes_cpt.forecast.predict import table
    from bayes_cpt.forecast.scores import fitted_scores, score_table
    from bayes_cpt.forecast.third_sets import weight_table
    from bayes_cpt.inference.posterior import load

    written = Output(quiet, json)
    file = OutputFile(output, SUFFIXES, fit, plan, at)
    posterior = load(fit)
    names = listed(sets)
    options: Any = {
        "kind": (kind or (Kind.new_run if plan else Kind.known_run)).value,
        "at": at,
        "draws": draws,
        "seed": seed,
        "interval": interval,
        "sets": names,
    }
    weights = score_bands = None
    with written.cautions():
        drawn = posterior.predict(plan, **options) if output.suffix == ".nc" or scores else None
        dataset = drawn if output.suffix == ".nc" else None
        if scores is not None and drawn is not None:
            links = fitted_scores(scores, posterior.study, seed)
            score_bands = score_table(drawn, links, interval, seed)
        table_of_bands = bands(posterior, plan, **options) if dataset is None else table(dataset)
        planned = posterior.study if plan is None else as_plan(posterior, plan)
        if names:
            weights = weight_table(posterior, names, draws, seed, interval)
    content = write_forecast(posterior, table_of_bands, file, dataset)
    content["takes"] = _taken(planned, set(table_of_bands["run"]))
    if weights is not None:
        content["weights"] = weights
    if score_bands is not None:
        content["scores"] = _write_scores(score_bands, output)
    show_forecast(written, posterior, content)
    _show_taken(written, content["takes"])
    if weights is not None:
        _show_weights(written, posterior, weights, interval)
    if score_bands is not None:
        _show_scores(written, content["scores"], interval)
    about = about_fit(fit, posterior) | {"plan": plan and str(plan), "seed": seed}
    return finish(written, posterior, about | content)


def write_forecast(
    posterior: "Posterior",
    bands: "pd.DataFrame",
    file: OutputFile,
    dataset: "xr.Dataset | None" = None,
) -> dict[str, Any]:
    """Write a forecast, its draws where the dataset is given, and return what machines are told of it."""
    from bayes_cpt.report.forecasts import forecast_verdict

    bands["interval"] = float(bands.attrs["interval"])
    target = Path(file.path or "")
    if dataset is not None:
        file.write(partial(_write_draws, dataset))
    elif target.suffix == ".csv":
        file.write(partial(bands.to_csv, index=False))
    else:
        file.write(partial(write_numbers, bands, interval=str(bands["interval"].iloc[0])))
    final = bands.groupby(["run", "domain"], sort=False).tail(1)
    beyond = final[final["outside"] != ""]
    return {
        "output": str(target),
        "replaced": file.replaces,
        "model": posterior.frame.spec.name,
        "study": posterior.study.name,
        "verdict": forecast_verdict(bands),
        "kind": str(bands["kind"].iloc[0]),
        "interval": float(bands.attrs["interval"]),
        "trustworthy": posterior.trustworthy,
        "problems": list(posterior.problems),
        "rows": len(bands),
        "final": final.drop(columns=["kind", "interval"]),
        "outside": dict(zip(beyond["run"], beyond["outside"], strict=True)),
    }


def _write_draws(dataset: "xr.Dataset", path: Path) -> None:
    packed = {"zlib": True, "shuffle": True, "complevel": 4}
    encoding = dict.fromkeys(("loss", "expected"), packed)
    # Through memory: HDF5 that runs out of disk may crash where Python raises.
    content: Any = dataset.to_netcdf(engine="netcdf4", encoding=encoding)
    path.write_bytes(bytes(content))


def show_forecast(written: Output, posterior: "Posterior", content: dict[str, Any]) -> None:
    """Show where each run ends, and what leaves what was fitted."""
    from bayes_cpt.report.numbers import fixed

    warn(written, posterior)
    written.verdict(content["verdict"])
    written.text(f"\nForecast by {content['model']}, fitted to {content['study']}.")
    percent = f"{100 * content['interval']:g} %"
    written.text(f"{WORDS[content['kind']]}, with central {percent} bands.")
    written.heading("At the last step")

    final = content["final"]
    cells: dict[str, Any] = {"run": "run", "on": "domain", "": "beyond", "step": ("step", "text")}
    for name in ("median", "lower", "upper", "sd"):
        cells[name] = lambda row, name=name: fixed(row[name], row["sd"])
    rows = with_beyond(final)
    written.table(rows, cells, marked=rows["beyond"], group="run")
    for run, note in content["outside"].items():
        written.note(f"Outside what was fitted: run {run}: {note}.")
    written.text(f"\nWritten to {content['output']}")
    if content["replaced"]:
        written.note(f"Note: {content['output']} was there already and has been replaced.")


def _taken(planned: "Study", runs: set[str]) -> dict[str, dict[str, float]]:
    """Return what runs take of data, time and money, where that is known, by run."""
    taken = {run.name: planned.resources.of_one(run) for run in planned.runs if run.name in runs}
    return taken if any(set(TAKEN) & set(amounts) for amounts in taken.values()) else {}


def _show_taken(written: Output, taken: dict[str, dict[str, float]]) -> None:
    import pandas as pd

    if taken:
        rows = pd.DataFrame.from_dict(taken, orient="index").rename_axis("run").reset_index()
        written.heading("What each run takes")
        written.table(rows, {"run": "run"} | {TAKEN[name]: name for name in TAKEN if name in rows})


def _write_scores(bands: "pd.DataFrame", output: Path) -> dict[str, Any]:
    """Write the bands of scores beside the forecast, and return what machines are told of them."""
    target = output.with_name(f"{output.stem}-scores.csv")
    write(target, partial(bands.to_csv, index=False))
    return {"output": str(target), "final": bands.groupby(["run", "benchmark"], sort=False).tail(1)}


def _show_scores(written: Output, content: dict[str, Any], interval: float) -> None:
    rows = with_beyond(content["final"])
    written.heading(f"Scores at the last step, with central {100 * interval:g} % bands")
    cells = "run | benchmark | =beyond | score=median:.3f | lower:.3f | upper:.3f"
    written.table(rows, cells, marked=rows["beyond"])
    written.text(f"\nWritten to {content['output']}")


def _show_weights(
    written: Output, posterior: "Posterior", weights: "pd.DataFrame", interval: float
) -> None:
    from bayes_cpt.forecast.third_sets import cause_names

    written.heading(f"Weights of Eq. 6, with {100 * interval:g} % intervals")
    rows = weights.assign(explained=weights["explained"].clip(lower=0.0))
    cells: dict[str, Any] = {"on": "domain"}
    for name in cause_names(posterior.study):
        ends = (f"{name}_lower", f"{name}_upper")
        texts = [weights[own].map("{:.2f}".format) for own in (name, *ends)]
        rows[name] = texts[0] + " (" + texts[1] + " to " + texts[2] + ")"
        cells[f"of {name}"] = (name, "text")
    cells |= {"runs": "runs", "explained": ("explained", "%")}
    written.table(rows, cells, marked=weights["caution"].astype(bool))
