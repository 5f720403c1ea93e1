"""`bayes-cpt predict`: a fit and a plan in, loss curves with bands out."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayes_cpt.cli.shared.console import TAKEN, Output, columns, number
from bayes_cpt.cli.shared.frame import OutputFile, about_fit, finish, warn
from bayes_cpt.cli.shared.options import (
    FitFile,
    Interval,
    Json,
    Quiet,
    ScoresFile,
    Seed,
    option,
    output_option,
)
from bayes_cpt.cli.shared.outputs import NUMBERS, check_target, write_numbers

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from bayes_cpt.inference.posterior import Posterior
    from bayes_cpt.study.study import Study

SUFFIXES = (".csv", *NUMBERS, ".nc")


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
    plan: Annotated[
        Path | None,
        option(
            "PLAN", "Runs to predict: a study folder, or one TOML file.", default="the fitted runs"
        ),
    ] = None,
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
    draws: Annotated[int, typer.Option(min=4, help="Posterior draws to use.")] = 1000,
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
    from bayes_cpt.inference.posterior import load

    written = Output(quiet, json)
    check_target(output, SUFFIXES, inputs=tuple(path for path in (fit, plan, at) if path))
    posterior = load(fit)
    chosen: Any = (kind or (Kind.new_run if plan else Kind.known_run)).value
    with written.cautions():
        options: Any = {
            "kind": chosen,
            "at": at,
            "draws": draws,
            "seed": seed,
            "interval": interval,
            "sets": tuple(name.strip() for name in sets.split(",")) if sets else (),
        }
        drawn = posterior.predict(plan, **options) if output.suffix == ".nc" or scores else None
        dataset = drawn if output.suffix == ".nc" else None
        told = None
        if scores is not None and drawn is not None:
            from bayes_cpt.forecast.scores.fitting import fitted_scores
            from bayes_cpt.forecast.scores.forecast import score_table

            links = fitted_scores(scores, posterior.study, seed)
            told = score_table(drawn, links, interval, seed)
        table_of_bands = bands(posterior, plan, **options) if dataset is None else table(dataset)
        planned = posterior.study if plan is None else as_plan(posterior, plan)
    content = write_and_show(written, posterior, table_of_bands, output, dataset)
    content["takes"] = _show_taken(written, planned, set(table_of_bands["run"]))
    if options["sets"]:
        content["weights"] = _show_weights(
            written, posterior, options["sets"], draws, seed, interval
        )
    if told is not None:
        content["scores"] = _show_scores(written, told, output)
    about = about_fit(fit, posterior) | {"plan": plan and str(plan), "seed": seed}
    return finish(written, posterior, about | content)


def write_and_show(
    written: Output,
    posterior: "Posterior",
    bands: "pd.DataFrame",
    target: Path,
    dataset: "xr.Dataset | None" = None,
) -> dict[str, Any]:
    """Write a forecast, show where each run ends, and return what machines are told of it.

    Written are the bands, or the draws of the dataset where it is given.
    """
    interval = float(bands.attrs["interval"])
    bands["interval"] = interval
    file = OutputFile(target)
    with file.partial() as partial:
        _write(dataset, bands, partial)
    final = bands.groupby(["run", "domain"], sort=False).tail(1)
    outside = {run: note for run, note in zip(final["run"], final["outside"], strict=True) if note}
    from bayes_cpt.report.words.forecast import verdict

    warn(written, posterior)
    lines = verdict(bands)
    written.verdict(lines)
    name = posterior.frame.spec.name
    written.text()
    written.text(f"Forecast by {name}, fitted to {posterior.study.name}.")
    written.text(f"{_words(bands['kind'].iloc[0])}, with central {100 * interval:g} % bands.")
    written.heading("At the last step")
    written.table(_final(final))
    for run, note in outside.items():
        written.note(f"Outside what was fitted: run {run}: {note}.")
    file.say(written)
    return {
        "output": str(target),
        "model": name,
        "study": posterior.study.name,
        "verdict": lines,
        "kind": str(bands["kind"].iloc[0]),
        "interval": interval,
        "trustworthy": posterior.trustworthy,
        "problems": list(posterior.problems),
        "rows": len(bands),
        "final": final.drop(columns=["kind", "interval"]).to_dict("records"),
        "outside": outside,
    }


def _show_taken(written: Output, planned: "Study", runs: set[str]) -> dict[str, dict[str, float]]:
    """Show what runs take of data, time and money, where that is known, and return it by run."""
    resources = planned.resources
    taken = {run.name: resources.of_one(run) for run in planned.runs if run.name in runs}
    names = [name for name in TAKEN if any(name in amounts for amounts in taken.values())]
    if names:
        written.heading("What each run takes")
        table = columns("run", *(TAKEN[name] for name in names), numbers=len(names))
        for run, amounts in taken.items():
            table.add_row(run, *(number(amounts.get(name), 3) for name in names))
        written.table(table)
    return taken if names else {}


def _show_scores(written: Output, told: "pd.DataFrame", output: Path) -> dict[str, Any]:
    """Write the bands of scores beside the forecast, show where each run ends, and return that."""
    target = output.with_name(f"{output.stem}-scores.csv")
    percent = f"{100 * float(told.attrs['interval']):g} %"
    file = OutputFile(target)
    with file.partial() as partial:
        told.to_csv(partial, index=False)
    final = told.groupby(["run", "benchmark"], sort=False).tail(1)
    written.heading(f"Scores at the last step, with central {percent} bands")
    table = columns("run", "benchmark", "", "score", "lower", "upper", numbers=3)
    for row in final.to_dict("records"):
        cells = [f"{row[name]:.3f}" for name in ("median", "lower", "upper")]
        mark, style = ("outside", "yellow") if row["outside"] else ("", "")
        table.add_row(row["run"], row["benchmark"], mark, *cells, style=style)
    written.table(table)
    file.say(written)
    return {"output": str(target), "final": final.to_dict("records")}


def _show_weights(
    written: Output,
    posterior: "Posterior",
    sets: tuple[str, ...],
    draws: int,
    seed: int,
    interval: float,
) -> list[dict[str, Any]]:
    """Show the weights of other validation sets, and return them."""
    import warnings

    from bayes_cpt.errors import StudyWarning
    from bayes_cpt.forecast.third_sets.weights import cause_names, weight_table

    with warnings.catch_warnings():
        # Those were shown with the forecast.
        warnings.simplefilter("ignore", StudyWarning)
        weights = weight_table(posterior, sets, draws, seed, interval)
    percent = f"{100 * interval:g} %"
    written.heading(f"Weights of Eq. 6, with {percent} intervals")
    causes = cause_names(posterior.study)
    headers = [f"of {name}" for name in causes]
    table = columns("on", *headers, "runs", "explained", numbers=len(headers) + 2)
    for row in weights.to_dict("records"):
        cells = [
            f"{row[name]:.2f} ({row[f'{name}_lower']:.2f} to {row[f'{name}_upper']:.2f})"
            for name in causes
        ]
        explained = f"{100 * max(row['explained'], 0.0):.0f} %"
        style = "yellow" if row["caution"] else ""
        table.add_row(row["domain"], *cells, str(row["runs"]), explained, style=style)
    written.table(table)
    return [{str(key): value for key, value in row.items()} for row in weights.to_dict("records")]


def _words(kind: str) -> str:
    return {
        "new_run": "What a validation curve of a new run would show",
        "expected": "The law's mean curve",
        "known_run": "Runs of the fitted study, given their measured points",
    }[kind]


def _final(final: "pd.DataFrame") -> Any:
    from bayes_cpt.report.numbers import fixed

    table = columns("run", "on", "", "step", "median", "lower", "upper", "sd", numbers=5)
    last = None
    for row in final.to_dict("records"):
        table.add_row(
            "" if row["run"] == last else row["run"],
            row["domain"],
            "outside" if row["outside"] else "",
            str(row["step"]),
            *(fixed(row[name], row["sd"]) for name in ("median", "lower", "upper")),
            fixed(row["sd"], row["sd"]),
            style="yellow" if row["outside"] else "",
        )
        last = row["run"]
    return table


def _write(dataset: "xr.Dataset | None", bands: "pd.DataFrame", path: Path) -> None:
    if dataset is None and path.suffix == ".csv":
        bands.to_csv(path, index=False)
    elif dataset is None:
        write_numbers(bands, path, interval=str(bands["interval"].iloc[0]))
    else:
        from bayes_cpt.inference.saved.netcdf import as_bytes

        packed = {"zlib": True, "shuffle": True, "complevel": 4}
        encoding = dict.fromkeys(("loss", "expected"), packed)
        path.write_bytes(as_bytes(dataset, encoding=encoding))
