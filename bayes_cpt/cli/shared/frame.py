"""What verbs share: whether a fit can be trusted, files written, what machines are told, the exit code.

A verb on a fit loads it, computes inside `Output.cautions`, writes its `OutputFile`, warns with
`warn`, shows its tables and ends with `finish`. Files come before tables: whoever reads these may
stop early. A verb whose result says what to do hands it to an `Answer`: the verdict first, then its main
table, then detail for who asks for it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayes_cpt.cli.shared.outputs import writing
from bayes_cpt.files import replacing
from bayes_cpt.views import Worded

if TYPE_CHECKING:
    from rich.table import Table

    from bayes_cpt.cli.shared.console import Output
    from bayes_cpt.cli.shared.outputs import Results
    from bayes_cpt.inference.posterior import Posterior

# Checks of a law that alarm, that are named one by one.
ALARMS = 6
# In a table, in place of a difference that cannot be told.
SAME = "="

type Section = tuple[str, "Table"]


def about_fit(fit: Path, posterior: "Posterior") -> dict[str, Any]:
    """Return what the result of every verb tells machines about the fit that it stands on."""
    checks = posterior.law_checks
    return {
        "fit": str(fit),
        "study": posterior.study.name,
        "model": posterior.frame.spec.name,
        "trustworthy": posterior.trustworthy,
        "problems": list(posterior.problems),
        "law_fits": posterior.law_fits,
        "law_alarms": [asdict(check) for check in checks.alarms] if checks else [],
    }


def warn(written: "Output", posterior: "Posterior") -> None:
    """Say where a fit cannot be trusted and what would change that, also if nothing else is printed.

    Parameters
    ----------
    written : Output
    posterior : Posterior
        Of one that can be trusted nothing is said.
    """
    from bayes_cpt.report.words.fit import warning

    for line in warning(posterior):
        written.error(line)


def show_fit_verdict(
    written: "Output", posterior: "Posterior", lines: Sequence[str], *, verbose: bool
) -> None:
    """Print whether to use a fit; where its law does not fit, also where it misses its runs.

    Parameters
    ----------
    written : Output
    posterior : Posterior
    lines : sequence of str
        Of `bayes_cpt.report.words.fit.fit_verdict`.
    verbose : bool
        Whether all alarms are listed, and not the first few alone.
    """
    from bayes_cpt.report.words.law import law_words

    if posterior.trustworthy:
        written.verdict(lines)
        return
    warn(written, posterior)
    if alarms := law_words(posterior).paragraphs:
        written.heading("Where the law misses its runs")
        for alarm in alarms if verbose else alarms[:ALARMS]:
            written.text(f" {alarm}")


def finish(written: "Output", posterior: "Posterior", content: Mapping[str, Any]) -> int:
    """Tell machines the result of a verb on a fit, and return its exit code."""
    written.result(dict(content))
    return 0 if posterior.trustworthy else 1


class OutputFile:
    """A file that a verb writes before it shows its tables, and names after them.

    Parameters
    ----------
    path : Path
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.replaces = path.exists()

    @contextmanager
    def partial(self) -> Iterator[Path]:
        """Give a file to write, and put it in its place once it is whole.

        Raises
        ------
        OutputError
            If it cannot be written; an old file is then left as it was.
        """
        with writing(self.path), replacing(self.path) as partial:
            yield partial

    def say(self, written: "Output") -> None:
        """Say where the file is, and whether another one was there before."""
        written.text(f"\nWritten to {self.path}")
        if self.replaces:
            written.note(f"Note: {self.path} was there already and has been replaced.")


@dataclass(frozen=True, eq=False)
class Answer:
    """A result on its way to the terminal, to files and to machines.

    Parameters
    ----------
    written : Output
    fit : Path
    posterior : Posterior
    result : Worded
    interval : float
        Mass of the intervals.
    """

    written: "Output"
    fit: Path
    posterior: "Posterior"
    result: Worded
    interval: float

    def show(
        self,
        main: Sequence[Section],
        detail: Callable[[], Sequence[Section]],
        *,
        verbose: bool,
        footnotes: Sequence[str] = (),
    ) -> None:
        """Print the verdict and the main tables, and the detail where it is asked for.

        Parameters
        ----------
        main : sequence of (str, Table)
            Headings and tables.
        detail : callable
            Returns further headings and tables.
        verbose : bool
            Whether they are wanted, and the paragraphs.
        footnotes : sequence of str
            To the main tables.
        """
        written = self.written
        warn(written, self.posterior)
        written.verdict(self.result.verdict(self.interval))
        for heading, table in main:
            written.heading(heading)
            written.table(table)
        for footnote in footnotes:
            written.text(footnote, "dim")
        if verbose:
            for heading, table in detail():
                written.heading(heading)
                written.table(table)
            written.words(self.result.sentences(self.interval))
        else:
            written.text()
        written.text(self._source(verbose), "dim")

    def _source(self, verbose: bool) -> str:
        state = "diagnostics met" if self.posterior.trustworthy else "not trustworthy"
        name = self.posterior.frame.spec.name
        more = "" if verbose else " --verbose says why."
        return f"By {name}, fitted to {self.posterior.study.name} ({state}).{more}"

    def words(self, results: "Results") -> None:
        """Write verdict and paragraphs into a folder."""
        lines = self.result.verdict(self.interval)
        results.words(["\n".join(lines), *self.result.sentences(self.interval)])

    def tell(self, content: Mapping[str, Any]) -> None:
        """Print the result for machines."""
        self.written.result(
            {
                **about_fit(self.fit, self.posterior),
                "interval": self.interval,
                "verdict": self.result.verdict(self.interval),
                **content,
                "sentences": self.result.sentences(self.interval),
            }
        )


def marked(name: str, outside: str) -> str:
    """Return a name, with the mark of what leaves what was fitted."""
    return f"{name} *" if outside else name


def footnote(outside: Sequence[str]) -> list[str]:
    """Return what the mark says, where there is one."""
    return ["* outside what was fitted, to be trusted less"] if any(outside) else []


def share(probability: float) -> str:
    """Return a probability for a table."""
    return f"{100 * probability:.0f} %"
