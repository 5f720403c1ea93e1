"""What verbs share: whether to trust a fit, answers on it, interruptions, and lines that do not parse.

A verb on a fit loads it, computes inside `Output.cautions`, writes its files, warns with `warn`, shows its
tables and ends with `finish`. One whose result says what to do hands it to an `Answer`: its files first,
then the verdict, the main table, and detail for who asks for it.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from bayes_cpt.cli.output import Columns, Output, Results

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from bayes_cpt.inference.posterior import Posterior
    from bayes_cpt.model.spec import ModelSpec
    from bayes_cpt.study.study import Study

# Typer keeps click to itself, but not the class of its usage errors.
UsageError: type[Exception] = typer.BadParameter.__bases__[0]
EXAMPLE, MISSING, GUESS = "Example:", "Missing ", "Did you mean"
# Checks of a law that alarm, that are named one by one.
ALARMS = 6
# In a table, in place of a difference that cannot be detected.
SAME = "="


def about_fit(fit: Path, posterior: "Posterior") -> dict[str, Any]:
    """Return what the result of every verb tells machines about the fit that it stands on."""
    return {
        "fit": str(fit),
        "study": posterior.study.name,
        "model": posterior.frame.spec.name,
        "trustworthy": posterior.trustworthy,
        "problems": list(posterior.problems),
        "law_fits": posterior.law_fits,
        "law_alarms": [asdict(check) for check in posterior.law_checks.alarms],
    }


def check_fittable(spec: "ModelSpec", study: "Study") -> None:
    """Raise where a study lacks what a law needs: before a long fit, and before the sampler is imported."""
    from bayes_cpt.model.setup import build_setup
    from bayes_cpt.study.ranges import check_evidence

    build_setup(spec, study)
    check_evidence(study, continual=spec.law.continual)


def warn(written: Output, posterior: "Posterior") -> None:
    """Say where a fit cannot be trusted and what would change that, also if nothing else is printed."""
    from bayes_cpt.report.fit import warning

    for line in warning(posterior):
        written.error(line)


def show_fit_verdict(
    written: Output, posterior: "Posterior", lines: Sequence[str], *, verbose: bool
) -> None:
    """Print whether to use a fit; where its law does not fit, also where it misses its runs."""
    from bayes_cpt.report.fit import law_words

    if posterior.trustworthy:
        written.verdict(lines)
        return
    warn(written, posterior)
    if alarms := law_words(posterior).sentences:
        written.heading("Where the law misses its runs")
        for alarm in alarms if verbose else alarms[:ALARMS]:
            written.text(f" {alarm}")


def finish(written: Output, posterior: "Posterior", content: Mapping[str, Any]) -> int:
    """Tell machines the result of a verb on a fit, and return its exit code."""
    written.result(content)
    return 0 if posterior.trustworthy else 1


@dataclass(frozen=True)
class Section:
    """A heading and the tidy table below it, as `Output.table` takes it."""

    heading: str
    rows: "pd.DataFrame"
    cells: Columns
    marked: Sequence[object] = ()
    group: str = ""

    def show(self, written: Output) -> None:
        """Print both."""
        written.heading(self.heading)
        written.table(self.rows, self.cells, marked=self.marked, group=self.group)


class Answer:
    """A result that says what to do, on its way to files, to the terminal and to machines.

    Parameters
    ----------
    written : Output
    fit : Path
    posterior : Posterior
    result : Decision, RunValues, ScheduleChoice or Survey
    interval : float
        Mass of the intervals.
    """

    def __init__(
        self, written: Output, fit: Path, posterior: "Posterior", result: Any, interval: float
    ) -> None:
        self.written, self.fit, self.posterior, self.interval = written, fit, posterior, interval
        self.verdict: list[str] = result.verdict(interval)
        self.sentences: list[str] = result.sentences(interval)
        self.results: Results | None = None

    def write(
        self,
        folder: Path | None,
        tables: "Mapping[str, pd.DataFrame]",
        figures: "Mapping[str, Figure]",
        **texts: str,
    ) -> None:
        """Fill a folder, where there is one: tables (CSV), figures (PNG), texts (TOML) and the words."""
        if folder is None:
            return
        self.results = Results(folder)
        self.results.tables(tables)
        for name, text in texts.items():
            self.results.text(f"{name}.toml", text)
        self.results.words(["\n".join(self.verdict), *self.sentences])
        for name, figure in figures.items():
            self.results.figure(f"{name}_figure", figure, f"{name}.png")

    def show(
        self,
        main: Sequence[Section],
        detail: Callable[[], Sequence[Section]],
        *,
        verbose: bool,
        footnotes: Sequence[str] = (),
    ) -> None:
        """Print the verdict and the main tables; detail and paragraphs where they are asked for."""
        written = self.written
        warn(written, self.posterior)
        written.verdict(self.verdict)
        for section in main:
            section.show(written)
        for footnote in footnotes:
            written.text(footnote, "dim")
        if verbose:
            for section in detail():
                section.show(written)
            written.words(self.sentences)
        else:
            written.text()
        written.text(self._source(verbose), "dim")
        if self.results is not None:
            self.results.say(written)

    def _source(self, verbose: bool) -> str:
        state = "diagnostics met" if self.posterior.trustworthy else "not trustworthy"
        name = self.posterior.frame.spec.name
        more = "" if verbose else " --verbose says why."
        return f"By {name}, fitted to {self.posterior.study.name} ({state}).{more}"

    def finish(self, content: Mapping[str, Any]) -> int:
        """Tell machines the result, and return the exit code."""
        told = {
            **about_fit(self.fit, self.posterior),
            "interval": self.interval,
            "verdict": self.verdict,
            "files": self.results.files if self.results else {},
            **content,
            "sentences": self.sentences,
        }
        return finish(self.written, self.posterior, told)


@contextmanager
def explained() -> Iterator[None]:
    """Let an interruption of a fit inside say what it means."""
    started = time.monotonic()
    try:
        yield
    except KeyboardInterrupt:
        spent = time.monotonic() - started
        raise KeyboardInterrupt(
            f"Interrupted after {spent:.0f} s, nothing was written. A fit cannot be resumed: start it "
            "again. The same --seed gives the same draws."
        ) from None


def usage_words(error: Exception, program: str) -> str:
    """Return what is wrong with a command line, of which command, and an example that would do."""
    context = getattr(error, "ctx", None)
    place = context.command_path if context else program
    text = " ".join(error.format_message().split())  # type: ignore[attr-defined]
    text = text if text.endswith((".", "?")) else f"{text}."
    lines = _examples(context.command, text) if context else []
    fix = f" As in: {', or '.join(lines)}" if lines else ""
    return f"{place}: {text} See {place} --help.{fix}"


def _examples(command: Any, text: str) -> list[str]:
    """Return the examples of a command that lacks something, or of a group without its command."""
    group = hasattr(command, "commands")
    wanted = GUESS not in text if group else text.startswith(MISSING)
    lines = [line.strip() for line in (command.help or "").splitlines()]
    if not wanted or EXAMPLE not in lines:
        return []
    examples = [*lines[lines.index(EXAMPLE) + 1 :], ""]
    return examples[: examples.index("")] if group else examples[: examples.index("")][:1]
