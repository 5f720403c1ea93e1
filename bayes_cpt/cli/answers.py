"""How a verb on a fit answers: the verdict first, then its main table, then detail for who asks for it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from bayes_cpt.cli.console import Output
from bayes_cpt.cli.frame import about_fit, show_verdict
from bayes_cpt.cli.targets import Results

if TYPE_CHECKING:
    from rich.table import Table

    from bayes_cpt.inference.posterior import Posterior

# In a table, in place of a difference that cannot be told.
SAME = "="

type Section = tuple[str, "Table"]


class Result(Protocol):
    """What a verb finds."""

    def verdict(self, interval: float = 0.9) -> list[str]:
        """Return what to do, how sure that is and what would change it."""

    def sentences(self, interval: float = 0.9) -> list[str]:
        """Return the detail, one paragraph per question."""


@dataclass(frozen=True, eq=False)
class Answer:
    """A result on its way to the terminal, to files and to machines.

    Parameters
    ----------
    written : Output
    fit : Path
    posterior : Posterior
    result : Result
    interval : float
        Mass of the intervals.
    """

    written: Output
    fit: Path
    posterior: "Posterior"
    result: Result
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
        if not self.posterior.trustworthy:
            show_verdict(written, self.posterior)
        for index, line in enumerate(self.result.verdict(self.interval)):
            written.text(line, "bold" if index == 0 else "")
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

    def words(self, results: Results) -> None:
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
