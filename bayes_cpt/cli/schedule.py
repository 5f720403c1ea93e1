"""`bayes-cpt schedule`: the best falling learning rate of a run, and what it gains over cosine and WSD."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayes_cpt.cli.console import Output, columns
from bayes_cpt.cli.fit import about_fit, show_verdict
from bayes_cpt.cli.options import FitFile, Interval, Json, Objective, Quiet
from bayes_cpt.cli.targets import Results, check_new_folder

if TYPE_CHECKING:
    import pandas as pd

    from bayes_cpt.decisions.schedule.schedule_choice import ScheduleChoice
    from bayes_cpt.inference.posterior import Posterior

NAMES = {"annealing": "annealing", "multi_power": "multi-power", "both": "both"}


class Under(StrEnum):
    """What the schedule is optimised under."""

    annealing = "annealing"
    multi_power = "multi-power"
    both = "both"


def schedule(
    fit: FitFile,
    steps: Annotated[int, typer.Option(metavar="N", help="Length of the run.", show_default=False)],
    replay: Annotated[
        float, typer.Option(metavar="SHARE", help="Share of general data.", show_default=False)
    ],
    base: Annotated[
        str, typer.Option(metavar="NAME", help="Base of the fitted study.", show_default=False)
    ],
    objective: Objective = "balanced",
    cap: Annotated[
        float | None,
        typer.Option(
            metavar="LR",
            help=r"Highest learning rate, raw \[default: the highest that the study was trained at].",
            show_default=False,
        ),
    ] = None,
    term: Annotated[
        Under, typer.Option(help="Under which term for what annealing gains to optimise.")
    ] = Under.both,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER",
            help="Folder to write the plan (study.toml, lr.csv), gains, figure and words into.",
            show_default=False,
        ),
    ] = None,
    interval: Interval = 0.9,
    draws: Annotated[int, typer.Option(min=4, help="Posterior draws to use.")] = 400,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    r"""Find the best schedule of any falling shape, and see whether its gain can be trusted.

    Up to a highest learning rate, a free schedule may fall in any way from the end of a short line that
    starts at the base's learning rate. It is compared with the best cosine and the best schedule that is
    held and then decays (WSD), in every posterior draw.

    The law's annealing term rewards a schedule that drops to 0 at once, which no study has tried. So all
    are judged by a second term as well, the multi-power term of Luo et al. (arXiv 2503.12811), matched to
    the fit on the study's own schedules. A gain that only one term promises is that term's doing.

    \b
    Terms:
    annealing    the law's own
    multi-power  the matched one
    both         the mean of the two

    \b
    Example:
    bayes-cpt schedule fit.nc --steps 12000 --replay 0.25 --base stable_12k -o schedule
    bayes-cpt predict fit.nc --plan schedule -o forecast.csv

    FOLDER is a plan of three runs, free, cosine and wsd. Its lr.csv has the learning rate of every step
    of free.

    \b
    Exit codes:
    0  done
    1  done, but the fit falls short of its diagnostics
    2  bad input: nothing is written
    """
    from bayes_cpt.decisions.schedule.schedule_choice import choose_schedule
    from bayes_cpt.inference.posterior import load

    written = Output(quiet, json)
    check_new_folder(output)
    posterior = load(fit)
    criterion = next(key for key, name in NAMES.items() if name == term.value)
    with written.cautions():
        found = choose_schedule(
            posterior,
            base,
            replay,
            steps,
            objective,
            cap=cap,
            criterion=criterion,  # type: ignore[arg-type]
            draws=draws,
        )
        table, sentences = found.table(interval), found.sentences(interval)
    show_verdict(written, posterior)
    _show(written, posterior, found, table, sentences, interval)
    files = _write(written, output, found, table, sentences) if output else {}
    written.result(
        {
            **about_fit(fit, posterior),
            "base": base,
            "replay": replay,
            "steps": steps,
            "cap": found.cap,
            "objective": found.objective.name,
            "term": term.value,
            "interval": interval,
            "gains": table.to_dict("records"),
            "noise": found.noise,
            "misfit_between_terms": found.misfit,
            "outside": found.outside,
            "learning_rate": found.schedule.learning_rates().tolist(),
            "sentences": sentences,
            "files": files,
        }
    )
    return 0 if posterior.trustworthy else 1


def _show(
    written: Output,
    posterior: "Posterior",
    found: "ScheduleChoice",
    table: "pd.DataFrame",
    sentences: list[str],
    interval: float,
) -> None:
    end = found.end
    written.text(
        f"Schedule of {end.steps} steps from {end.base.name} at replay {end.replay:g} by "
        f"{posterior.frame.spec.name}, fitted to {posterior.study.name}",
        "bold",
    )
    written.heading(
        f"By how much the free schedule ends lower, nats, with {100 * interval:g} % intervals"
    )
    written.table(_gains(table))
    written.words(sentences)


def _gains(table: "pd.DataFrame") -> Any:
    headers = ("optimised under", "than the best", "judged by", "median", "lower", "upper")
    found = columns(*headers, "ends lower", numbers=4)
    last: tuple[str, str] = ("", "")
    for row in table.to_dict("records"):
        first, second = row["optimised"], row["against"]
        found.add_row(
            "" if first == last[0] else NAMES[first],
            "" if (first, second) == last else second,
            NAMES[row["term"]],
            *(f"{row[name]:+.4f}" for name in ("median", "lower", "upper")),
            f"{100 * row['probability']:.0f} %",
            style="bold" if row["recommended"] else "",
        )
        last = (first, second)
    return found


def _write(
    written: Output,
    folder: Path,
    found: "ScheduleChoice",
    table: "pd.DataFrame",
    sentences: list[str],
) -> dict[str, str]:
    """Write plan, gains, figure and words, and return what was written."""
    from bayes_cpt import plots
    from bayes_cpt.study.writer import runs_text

    results = Results(folder)
    results.tables({"lr": found.rates(), "gains": table})
    results.text("study.toml", runs_text(found.plan.runs))
    results.words(sentences)
    results.figure("figure", plots.free_schedule(found), "schedule.png")
    return results.shown(written)
