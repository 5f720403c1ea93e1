"""The pieces of a paper, by the names of their files: texts, and figures at the width of a column."""

import re
from typing import TYPE_CHECKING

from bayes_cpt.report.equation import equation
from bayes_cpt.report.paper.figure_captions import CAPTIONS
from bayes_cpt.report.paper.notation import latex as latex_equation
from bayes_cpt.report.paper.references import CITATION, bibtex, cited, in_latex
from bayes_cpt.report.paper.statements import statements
from bayes_cpt.report.paper.tables import WRITERS, escape
from bayes_cpt.report.rendering import environment

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from bayes_cpt.report.page.report import Report

# Figures of a paper, by their names in a report.
FIGURES = ("forecast", "surface", "ridges", "sampling")


def texts(report: "Report") -> dict[str, str]:
    """Return the texts of a paper, by the names of their files.

    Parameters
    ----------
    report : Report

    Returns
    -------
    dict of str to str
        ``methods.tex``, ``sentences.tex``, ``equation.tex``, ``table-NAME.tex``, ``.md`` and ``.csv``,
        ``references.bib``, ``paper.tex``, which takes in all of them, and ``paper.md``.
    """
    methods = [_escape_citing(paragraph) for paragraph in report.methods]
    equations = statements(equation(report.posterior.frame))
    pieces = {
        "methods.tex": "\n\n".join(methods) + "\n",
        "sentences.tex": "\n\n".join(map(escape, report.sentences)) + "\n",
        "equation.tex": "\n".join(
            f"\\[ {latex_equation(statement)} \\]{_note(statement.note)}" for statement in equations
        )
        + "\n",
        "references.bib": bibtex(report.posterior, cited("\n".join(report.methods))),
    }
    for name, table in report.tables.items():
        for suffix, write in WRITERS.items():
            pieces[f"table-{name}{suffix}"] = write(table)
    facts = {
        "title": escape(f"{report.posterior.study.name}: what was fitted, and what follows"),
        "tables": list(report.tables),
        "figures": _figure_captions(report),
    }
    pieces["paper.tex"] = environment().get_template("paper.tex").render(facts)
    pieces["paper.md"] = _markdown(report)
    return pieces


def figures(report: "Report") -> "dict[str, Figure]":
    """Return the figures of a paper at the width of a column, by their names.

    Parameters
    ----------
    report : Report
    """
    from bayes_cpt import plots
    from bayes_cpt.plots.style import COLUMN

    posterior, drawn = report.posterior, {}
    if report.curves is not None:
        drawn["forecast"] = plots.forecast(posterior, report.curves, width=COLUMN)
    if report.surface is not None and report.decision is not None:
        drawn["surface"] = plots.loss_surface(report.decision, report.surface)
    drawn["ridges"] = plots.ridges(posterior)
    drawn["sampling"] = plots.sampling(posterior, report.quantities)
    return {file_name(name): figure for name, figure in drawn.items()}


def file_name(figure: str) -> str:
    """Return the name of a figure's file, without its suffix.

    Parameters
    ----------
    figure : str
        Its name in a report.
    """
    return f"figure-{figure}"


def _figure_captions(report: "Report") -> dict[str, str]:
    absent = {
        "forecast": report.curves is None,
        "surface": report.surface is None,
    }
    return {
        file_name(name): escape(CAPTIONS[name]) for name in FIGURES if not absent.get(name, False)
    }


def _escape_citing(text: str) -> str:
    r"""Return a text as LaTeX prints it, its citations as commands.

    Examples
    --------
    >>> _escape_citing("By 90 % [@hoffman2014nuts].")
    'By 90 \\%~\\cite{hoffman2014nuts}.'
    """
    parts = re.split(rf"(\s*{CITATION.pattern.replace('(', '(?:')})", text)
    return "".join(in_latex(part) if CITATION.search(part) else escape(part) for part in parts)


def _note(note: str) -> str:
    return rf"\noindent({escape(note)})" if note else ""


def _markdown(report: "Report") -> str:
    """Return methods, sentences and tables as one Markdown text, for pandoc or a page."""
    parts = ["## Results", *report.sentences, "## Methods", *report.methods]
    parts += [
        f"$$ {latex_equation(statement)} $$" + (f"\n\n({statement.note})" if statement.note else "")
        for statement in statements(equation(report.posterior.frame))
    ]
    parts += ["## Tables", *(WRITERS[".md"](table) for table in report.tables.values())]
    return "\n\n".join(parts) + "\n"
