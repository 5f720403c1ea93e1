"""`bayes-cpt predict`: a fit and a plan in, loss curves with bands out."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import bayes_cpt
from bayes_cpt.cli.options import command, listed
from bayes_cpt.cli.output import NUMBERS, Answer, OutputFile, Part, write_numbers
from bayes_cpt.cli.running import of_fit
from bayes_cpt.report.tables import Table

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from bayes_cpt.inference.posterior import Posterior

SUFFIXES = (*NUMBERS, ".nc")


@command
def predict(
    fit: Path,
    *,
    output: Path,
    plan: Path | None = None,
    kind: Literal["expected", "new_run", "known_run"] | None = None,
    interval: float = 0.9,
    at: Path | None = None,
    sets: str | None = None,
    scores: Path | None = None,
    draws: int = 1000,
    seed: int = 0,
) -> Answer:
    r"""Predict the loss curves of runs that were never trained, with credible bands.

    OUT has one row per run, step and validation set, with the columns run, step, domain, mean, median,
    sd, lower, upper, kind, outside, interval: lower and upper hold the central mass in interval,
    outside says where the run leaves what the fit has seen. A .nc file holds the draws and these bands.

    A plan needs no losses: a TOML file of \[runs.NAME] tables in the form of study.toml is enough.
    Bases that the fitted study has need not be repeated.

    With --sets further validation sets of the study are predicted from general and target loss, their
    weights (Eq. 6) learnt from their own curves; sets that the linear form misses are named.

    With --scores, a CSV of losses and scores of checkpoints, scores of benchmarks are predicted through a
    monotone link and written beside OUT, as OUT-scores.csv.

    \b
    Kinds:
    new_run    what a validation curve of a new run would show
    expected   the law's mean curve alone
    known_run  a run of the fitted study, given its measured points; a plan only names it

    \b
    Example:
    bayes-cpt predict fit.nc --plan plan.toml -o forecast.csv
    bayes-cpt predict fit.nc --plan plan.toml --sets code,maths -o forecast.csv

    Parameters
    ----------
    output : OUT
        File to write: .csv, .parquet or .json for the bands, .nc for draws and bands.
    kind
        What the bands are about [default: new_run, or known_run without a plan].
    at : FILE
        CSV with columns run, step, domain: where [default: about 200 steps a run].
    sets : NAMES
        Other validation sets of the study to predict too (Eq. 6), separated by commas, or all.
    """
    import pandas as pd

    from bayes_cpt.forecast.bands import Forecast
    from bayes_cpt.forecast.predict import draws_and_bands
    from bayes_cpt.forecast.scores import fitted_scores, score_table
    from bayes_cpt.forecast.third_sets import cause_names, weights_of
    from bayes_cpt.report.results import taken_columns

    file = OutputFile(output, SUFFIXES, fit, plan, at)
    posterior = bayes_cpt.load(fit)
    # A name may have a comma itself.
    names = (sets,) if sets in posterior.study.third_domains else listed(sets)
    kind = kind or ("new_run" if plan else "known_run")
    asked = Forecast.of(posterior, plan, kind, at, draws, seed, interval, names)
    found = asked.bands()
    drawn = draws_and_bands(asked, found) if output.suffix == ".nc" or scores else None
    links = None if scores is None else fitted_scores(scores, posterior.study, seed)
    if drawn is not None and output.suffix == ".nc":
        file.write(partial(_write_draws, drawn))
    else:
        file.write(partial(write_numbers, found.assign(interval=interval)))
    about, verdict, parts = forecast(posterior, found)
    planned = asked.plan.study
    takes = {name: planned.resources.of_one(planned.run(name)) for name in found["run"].unique()}
    taken = pd.DataFrame(takes.values(), range(len(takes))).assign(run=list(takes))
    if shown := taken_columns(taken):
        parts.append(Table.of("takes", taken, {"run": "run"} | shown))
    content = about | {"takes": takes if shown else {}, "replaced": file.replaces}
    if names:
        weights = weights_of([law.third for law in asked.laws], posterior.study, interval)
        content["weights"] = weights
        causes = " | ".join(f"of {own}={own}:interval" for own in cause_names(posterior.study))
        weighed: Any = {"marked": weights["caution"], "interval": interval, "causes": causes}
        explained = weights["explained"].clip(lower=0.0)
        parts.append(Table.of("weights", weights.assign(explained=explained), **weighed))
    if links is not None and drawn is not None:
        score_bands = score_table(drawn, links, interval, seed)
        target = output.with_name(f"{output.stem}-scores.csv")
        file.put(target, partial(score_bands.to_csv, index=False))
        final = score_bands.groupby(["run", "benchmark"], sort=False).tail(1)
        content["scores"] = {"output": str(target), "final": final}
        parts.append(Table.of("scores", final, interval=interval))
    return of_fit(posterior, content, verdict, parts, written=[file])


def _write_draws(dataset: "xr.Dataset", path: Path) -> None:
    packed = {"zlib": True, "shuffle": True, "complevel": 4}
    encoding = dict.fromkeys(("loss", "expected"), packed)
    # Through memory: HDF5 that runs out of disk may crash where Python raises.
    content: Any = dataset.to_netcdf(engine="netcdf4", encoding=encoding)
    path.write_bytes(bytes(content))


def forecast(
    posterior: "Posterior", bands: "pd.DataFrame"
) -> tuple[dict[str, Any], list[str], list[Part]]:
    """Return the JSON of a forecast, its verdict, and what people are shown."""
    from bayes_cpt.report.forecasts import forecast_words
    from bayes_cpt.report.results import forecast_table
    from bayes_cpt.report.words import paragraphs

    kind, interval = str(bands["kind"].iloc[0]), float(bands.attrs["interval"])
    final = bands.groupby(["run", "domain"], sort=False).tail(1)
    beyond = final[final["outside"] != ""]
    content = {
        "kind": kind,
        "rows": len(bands),
        "final": final.drop(columns="kind"),
        "outside": dict(zip(beyond["run"], beyond["outside"], strict=True)),
    }
    facts = {"posterior": posterior, "kind": kind, "mass": f"{100 * interval:g} %"}
    about = paragraphs("predict.txt", "about", facts)
    return content, forecast_words(bands).verdict, ["", *about, forecast_table(bands)]
