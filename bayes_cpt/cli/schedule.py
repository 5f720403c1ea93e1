"""`bayes-cpt schedule`: the best falling learning rate of a run, and what it gains over cosine and WSD."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayes_cpt.cli.shared.console import Output, columns
from bayes_cpt.cli.shared.frame import SAME, Answer, Section, share
from bayes_cpt.cli.shared.options import (
    FitFile,
    Interval,
    Json,
    Objective,
    Quiet,
    Verbose,
    option,
    output_option,
)
from bayes_cpt.cli.shared.outputs import Results, check_new_folder

if TYPE_CHECKING:
    import pandas as pd

    from bayes_cpt.decisions.schedule.schedule_choice import ScheduleChoice

NAMES = {"annealing": "annealing", "multi_power": "multi-power", "both": "both"}


class Under(StrEnum):
    """What the schedule is optimised under."""

    annealing = "annealing"
    multi_power = "multi-power"
    both = "both"


def schedule(
    fit: FitFile,
    steps: Annotated[int, option("N", "Length of the run.")],
    replay: Annotated[
        float | None,
        option(
            "SHARE", "Share of general data.", default="the best of the study's for the objective"
        ),
    ] = None,
    base: Annotated[
        str | None,
        option(
            "NAME", "Base of the fitted study.", default="the best that its CPT runs start from"
        ),
    ] = None,
    targets: Annotated[
        str | None,
        option(
            "MIXTURE",
            "Of several targets one, or shares as in code=0.7,law=0.3.",
            default="the best of the study's",
        ),
    ] = None,
    objective: Objective = "balanced",
    cap: Annotated[
        float | None,
        option(
            "LR", "Highest learning rate, raw.", default="the highest that the study was trained at"
        ),
    ] = None,
    term: Annotated[
        Under, typer.Option(help="Under which term for what annealing gains to optimise.")
    ] = Under.both,
    output: Annotated[
        Path | None,
        output_option(
            "FOLDER", "Folder to write the plan (study.toml, lr.csv), gains, figure and words into."
        ),
    ] = None,
    interval: Interval = 0.9,
    draws: Annotated[int, typer.Option(min=4, help="Posterior draws to use.")] = 400,
    verbose: Verbose = False,
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
    bayes-cpt schedule fit.nc --steps 10000 -o schedule
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
        choice = choose_schedule(
            posterior,
            base,
            replay,
            steps,
            objective,
            targets=_mixture(targets),
            cap=cap,
            criterion=criterion,  # type: ignore[arg-type]
            draws=draws,
        )
    table = choice.table(interval)
    answer = Answer(written, fit, posterior, choice, interval)
    percent = f"{100 * interval:g} %"
    answer.show(
        [
            (
                f"Where the free schedule ends, nats, with {percent} intervals",
                _main(choice, interval),
            )
        ],
        lambda: [_detail(table)],
        verbose=verbose,
        footnotes=[f"{SAME} less than {choice.told:.1g} nats: no difference that can be told"],
    )
    files = _write(answer, output, choice, table) if output else {}
    answer.tell(
        {
            "base": choice.end.base.name,
            "replay": choice.end.replay,
            "targets": dict(choice.end.mixture),
            "not_given": list(choice.taken),
            "steps": steps,
            "cap": choice.cap,
            "objective": choice.objective.name,
            "term": term.value,
            "advised": choice.advised,
            "gains": table.to_dict("records"),
            "noise": choice.noise,
            "misfit_between_terms": choice.misfit,
            "outside": choice.outside,
            "learning_rate": choice.schedule.learning_rates().tolist(),
            "files": files,
        }
    )
    return 0 if posterior.trustworthy else 1


def _mixture(words: str | None) -> str | dict[str, float] | None:
    """Return the mixture that ``code=0.7,law=0.3`` stands for; the name of a single target as it is."""
    if words is None or "=" not in words:
        return words
    shares = {}
    for part in words.split(","):
        name, _, share = part.partition("=")
        try:
            shares[name.strip()] = float(share)
        except ValueError:
            hint = "write NAME=SHARE with commas between, as in code=0.7,law=0.3."
            raise typer.BadParameter(f"--targets {words}: {part!r} is no share: {hint}") from None
    return shares


def _main(choice: "ScheduleChoice", interval: float) -> Any:
    """Return what the recommended free schedule gains, and = where that cannot be told."""
    from bayes_cpt.decisions.schedule.schedule_choice import COSINE, WSD
    from bayes_cpt.decisions.schedule.schedule_end import TERMS
    from bayes_cpt.report.numbers import Estimate

    titles = [f"by the {NAMES[term]} term" for term in TERMS]
    shown = columns("against the best", *titles, numbers=2)
    for against, name in ((COSINE, "cosine"), (WSD, "hold-and-decay (WSD)")):
        cells = []
        for term in TERMS:
            change = Estimate.of(-choice.gains(choice.criterion, against, term), interval)
            told = abs(change.median) > choice.told and change.is_told
            cells.append(f"{change.change} ({change.band})" if told else SAME)
        shown.add_row(name, *cells)
    return shown


def _detail(table: "pd.DataFrame") -> Section:
    """Return all gains, of each free schedule under each term."""
    headers = ("optimised under", "than the best", "judged by", "median", "lower", "upper")
    shown = columns(*headers, "ends lower", numbers=4)
    last: tuple[str, str] = ("", "")
    for row in table.to_dict("records"):
        first, second = row["optimised"], row["against"]
        shown.add_row(
            "" if first == last[0] else NAMES[first],
            "" if (first, second) == last else second,
            NAMES[row["term"]],
            *(f"{row[name]:+.4f}" for name in ("median", "lower", "upper")),
            share(row["probability"]),
            style="bold" if row["recommended"] else "",
        )
        last = (first, second)
    return "By how much each free schedule ends lower, nats", shown


def _write(
    answer: Answer, folder: Path, choice: "ScheduleChoice", table: "pd.DataFrame"
) -> dict[str, str]:
    """Write plan, gains, figure and words, and return what was written."""
    from bayes_cpt.study.writers.folder import runs_text

    results = Results(folder)
    results.tables({"lr": choice.rates(), "gains": table})
    results.text("study.toml", runs_text(choice.plan.runs))
    answer.words(results)
    results.figure("figure", choice.plot(), "schedule.png")
    return results.shown(answer.written)
