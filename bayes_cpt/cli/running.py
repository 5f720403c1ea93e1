"""What verbs share: answers on a fit, interruptions, and lines that do not parse."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer
from rich.text import Text

from bayes_cpt.cli.output import Answer, OutputFile, Part, Results, heading, in_words

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from bayes_cpt.inference.posterior import Posterior
    from bayes_cpt.report.words import Words

# Typer keeps click to itself, but not the class of its usage errors.
UsageError: type[Exception] = typer.BadParameter.__bases__[0]
# Checks of a law that alarm, that are named one by one.
ALARMS = 6


def of_fit(
    posterior: "Posterior",
    content: Mapping[str, Any],
    verdict: Sequence[str],
    parts: Sequence[Part] = (),
    *,
    problems: Sequence[str] = (),
    written: Sequence[OutputFile | Results] = (),
) -> Answer:
    """Return an answer that stands on a fit, with the facts of that fit and first whether to trust it."""
    from bayes_cpt.report.fit import unmeasured_words, warned, warning

    about = {
        "study": posterior.study.name,
        "model": posterior.frame.spec.name,
        "trustworthy": posterior.trustworthy,
        "problems": posterior.problems,
        "law_fits": posterior.law_fits,
        "law_alarms": posterior.law_checks.alarms,
        "unmeasured": posterior.frame.unmeasured,
    }
    found = [*problems, *warning(posterior)]
    notes = list(filter(None, [unmeasured_words(posterior.frame)]))
    first = warned(posterior, verdict)
    return Answer(about | dict(content), first, parts, found, notes, written)


def law_alarms(posterior: "Posterior", *, verbose: bool) -> list[Part]:
    """Return where the law of a fit misses its runs."""
    from bayes_cpt.report.fit import alarm_words

    alarms = alarm_words(posterior)
    shown = [f" {own}" for own in (alarms if verbose else alarms[:ALARMS])]
    return [heading("Where the law misses its runs"), *shown] if shown else []


def advised(
    posterior: "Posterior",
    words: "Words",
    results: Results,
    content: Mapping[str, Any],
    *,
    tables: "Mapping[str, pd.DataFrame]",
    figures: "Mapping[str, Callable[[], Figure]]",
    parts: Sequence[Part],
    verbose: bool,
    problems: Sequence[str] = (),
) -> Answer:
    """Return the answer of a verb whose result says what to do, its files written.

    Tables and figures go by the names of their files, without endings; machines are told the content
    besides tables and words. Printed are the parts, and if verbose all words. Problems are those besides
    the fit's.
    """
    from bayes_cpt.identify.determination import facts
    from bayes_cpt.report.fit import effect_words, warned
    from bayes_cpt.report.words import paragraphs

    known = facts(posterior)
    results.tables(tables)
    results.words(warned(posterior, words.verdict), words.sentences)
    results.figures(figures)
    source = f"By {posterior.frame.spec.name}, fitted to {posterior.study.name}."
    parts = [*parts, *(in_words(words.sentences) if verbose else [""])]
    parts += paragraphs("fit.txt", "left_open", effect_words(known))
    parts.append(Text(source if verbose else f"{source} --verbose says why.", "dim"))
    told = {"facts": known, **tables, **content, "sentences": words.sentences}
    return of_fit(posterior, told, words.verdict, parts, problems=problems, written=[results])


def usage_words(error: Exception, program: str) -> str:
    """Return what is wrong with a command line, of which command, and an example that would do."""
    context = getattr(error, "ctx", None)
    place = context.command_path if context else program
    text = " ".join(error.format_message().replace("Value error, ", "").split())  # type: ignore[attr-defined]
    text = text if text.endswith((".", "?")) else f"{text}."
    example = re.search(r"Example:\n\s*(.+)", context.command.help or "") if context else None
    shown = f" As in: {example[1]}" if example and text.startswith("Missing ") else ""
    return f"{place}: {text} See {place} --help.{shown}"
