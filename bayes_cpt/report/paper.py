"""The pieces of a paper by the names of their files: texts, equations, tables and figures."""

import re
from collections.abc import Callable

from matplotlib.figure import Figure

from bayes_cpt.plots.style import COLUMN
from bayes_cpt.report.equation import latex as latex_equation
from bayes_cpt.report.equation import latex_symbol, law_equations, lettered
from bayes_cpt.report.methods import CITATION, bibtex, cited
from bayes_cpt.report.page import Report
from bayes_cpt.report.tables import WRITERS, escape, markdown
from bayes_cpt.report.words import environment, notation


def texts(report: Report) -> dict[str, str]:
    """Return the texts of a paper, by the names of their files.

    ``methods.tex``, ``sentences.tex``, ``equation.tex``, ``table-NAME.tex``, ``.md`` and ``.csv``,
    ``references.bib``, ``paper.tex``, which takes in all of them, and ``paper.md``.
    """
    facts = {
        "report": report,
        "title": f"{report.posterior.study.name}: what was fitted, and what follows",
        "equations": [(latex_equation(own), own) for own in law_equations(report.posterior.frame)],
        "letter": lambda name: f"${latex_symbol(name)}$",
        "lettered": lettered,
        "tables": {name: markdown(table) for name, table in report.tables.items()},
        "figures": {
            f"figure-{name}": notation()["figures"][name]["caption"]
            for name in report.figures(COLUMN)
        },
        "escape": escape,
    }
    pieces = {
        name: environment().get_template(name).render(facts).strip() + "\n"
        for name in ("paper.tex", "paper.md", "equation.tex")
    }
    pieces["methods.tex"] = "\n\n".join(map(_escape_citing, report.methods)) + "\n"
    pieces["sentences.tex"] = "\n\n".join(map(escape, report.sentences)) + "\n"
    pieces["references.bib"] = bibtex(report.posterior, cited("\n".join(report.methods)))
    for name, table in report.tables.items():
        pieces |= {f"table-{name}{suffix}": write(table) for suffix, write in WRITERS.items()}
    return pieces


def _escape_citing(text: str) -> str:
    r"""Return a text as LaTeX prints it, its citations as commands.

    Examples
    --------
    >>> _escape_citing("By 90 % [@hoffman2014nuts].")
    'By 90 \\%~\\cite{hoffman2014nuts}.'
    """
    # Texts and the keys between them, in turns.
    parts = re.split(rf"\s*{CITATION.pattern}", text)
    return "".join(
        rf"~\cite{{{part}}}" if place % 2 else escape(part) for place, part in enumerate(parts)
    )


def figures(report: Report) -> dict[str, Callable[[], Figure]]:
    """Return what draws the figures of a paper, one column or two wide, by the names of their files."""
    return {f"figure-{name}": draw for name, draw in report.figures(COLUMN).items()}
