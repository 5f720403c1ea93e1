"""The page of a report: its facts, put into ``templates/report.html``."""

import json
import re
from html import escape
from typing import TYPE_CHECKING

from markupsafe import Markup

from bayes_cpt.report.equation import equation, meaning
from bayes_cpt.report.numbers import listed
from bayes_cpt.report.page.data import bases_table, priors_table, runs_table
from bayes_cpt.report.page.drawings import Drawing
from bayes_cpt.report.paper.figure_captions import ALTERNATIVES, CAPTIONS
from bayes_cpt.report.paper.notation import mathml, mathml_symbol
from bayes_cpt.report.paper.references import CITATION, bibtex, cited, versions
from bayes_cpt.report.paper.statements import GREEK, statements
from bayes_cpt.report.paper.tables import TextTable
from bayes_cpt.report.rendering import environment
from bayes_cpt.report.words.fit import checks_passed
from bayes_cpt.report.words.law import law_words
from bayes_cpt.report.words.summary import summarise, trust

if TYPE_CHECKING:
    from bayes_cpt.report.page.report import Report

TEMPLATE = "report.html"
# Fitted runs that are drawn; of more, those at even distances in replay ratio.
MOST_RUNS = 4
# Width of a figure that a telephone shows whole, inches.
NARROW = 3.6
# Things to mind that are named one by one.
NAMED = 8
NAMES = re.compile(r"\b(" + "|".join(GREEK) + r")\b")
PERCENT = re.compile(r"(\d) %")


def page(report: "Report") -> str:
    """Return the HTML page of a report.

    Parameters
    ----------
    report : Report
    """
    posterior, decision = report.posterior, report.decision
    frame, study = posterior.frame, posterior.study
    text = "\n\n".join(report.methods)
    keys = cited(text)
    return _unbroken(
        environment()
        .get_template(TEMPLATE)
        .render(
            study=study,
            model=frame.spec,
            mass=f"{100 * report.interval:g} %",
            trustworthy=posterior.trustworthy,
            passed=checks_passed(posterior),
            problems=posterior.problems,
            verdict=report.verdict,
            decision=decision,
            paragraphs=decision.sentences(report.interval) if decision else [],
            sentences=report.sentences,
            tables=report.tables,
            trusted=_trusted(report),
            minded=_minded(report),
            calibration=report.calibration,
            runs=runs_table(study),
            bases=bases_table(study),
            equations=[
                (Markup(mathml(statement)), _with_letters(statement.note))
                for statement in statements(equation(frame))
            ],
            letters=[
                (_symbol(name), meaning(frame, name))
                for name in report.tables["coefficients"].values["quantity"].unique()
            ],
            priors=priors_table(posterior),
            reached=report.reached,
            drawings=_drawings(report),
            attributes=posterior.tree.attrs,
            versions=json.loads(posterior.tree.attrs["versions"]) or versions(posterior),
            command=report.command,
            methods=[_with_links(paragraph, keys) for paragraph in report.methods],
            references=bibtex(posterior, keys),
            html_cells=_html_cells,
        )
        .strip()
    )


def _trusted(report: "Report") -> list[str]:
    """Return what may be relied on."""
    posterior = report.posterior
    lines = []
    if posterior.trustworthy:
        passed = checks_passed(posterior)
        lines.append(f"{passed[0].upper()}{passed[1:]}.")
    lines.append(trust(report.quality))
    lines.append(summarise(report.determined)[0])
    if report.calibration is not None:
        lines += [
            f"On points that no fit saw ({score['left_out']}) the 90 % bands held "
            f"{100 * score['coverage_90']:.0f}{score['error']} % of {score['points']}."
            for score in report.calibration.scores()
        ]
    return lines


def _minded(report: "Report") -> list[str]:
    """Return what should be relied on less, or was not looked at."""
    posterior = report.posterior
    lines = [f"The posterior falls short: {problem}." for problem in posterior.problems]
    if not posterior.law_fits:
        lines += law_words(posterior).verdict
    lines.append(summarise(report.determined)[1])
    if report.decision is not None:
        lines += [
            f"The recommendation leaves what was fitted: {note}."
            for note in report.decision.outside[0]
        ]
        lines += [
            f"{edge[:1].upper()}{edge[1:]}, so that better may lie beyond."
            for edge in report.decision.edges
        ]
    if report.bands is not None:
        last = report.bands.drop_duplicates("run")
        notes = [f"{row.run}: {row.outside}" for row in last.itertuples() if row.outside]
        if notes:
            lines.append(f"Forecasts outside what was fitted: {listed(notes, NAMED)}.")
    if report.calibration is None:
        lines.append(
            "Forecasts were not tested on held-out runs of this study: bayes-cpt validate forecast does."
        )
    elif report.calibration.caution:
        lines.append(report.calibration.caution)
    lines.append("bayes-cpt summary FIT --sensitivity says which of this rests on a prior.")
    return lines


def _drawings(report: "Report") -> dict[str, Drawing]:
    """Return the figures of a report, by name."""
    from bayes_cpt import plots

    posterior, decision = report.posterior, report.decision
    figures = {
        "fitted": plots.fitted(posterior, _some_runs(report)),
        "ridges": plots.ridges(posterior),
        "sampling": plots.sampling(posterior, report.quantities),
    }
    if decision is not None:
        figures["decision"] = plots.decision(decision)
        if report.surface is not None:
            figures["surface"] = plots.loss_surface(decision, report.surface)
    if report.curves is not None:
        width = NARROW if report.curves.sizes["run"] == 1 else None
        figures["forecast"] = plots.forecast(posterior, report.curves, width=width)
    if report.calibration is not None:
        points = report.calibration.points
        whole = points[points["seen"] == 0]
        figures["calibration"] = (
            plots.coverage(whole, "share") if len(whole) else plots.coverage(points, "ratio")
        )
    return {
        name: Drawing.of(figure, ALTERNATIVES[name], CAPTIONS[name])
        for name, figure in figures.items()
    }


def _some_runs(report: "Report") -> list[str]:
    """Return the names of a few fitted runs, spread over the replay ratios."""
    study = report.posterior.study
    continual = report.posterior.frame.spec.law.continual
    runs = study.continual_runs if continual else study.pretraining_runs
    ordered = sorted(runs, key=lambda run: (run.replay or 0.0, run.name))
    count = min(MOST_RUNS, len(ordered))
    places = [round(k * (len(ordered) - 1) / max(1, count - 1)) for k in range(count)]
    return [ordered[place].name for place in places]


def _symbol(name: str) -> Markup:
    return Markup(mathml_symbol(name))


def _with_letters(note: str) -> str:
    """Return a note whose Greek letters are letters."""
    return NAMES.sub(lambda match: GREEK[match[0]], note).replace(" - ", " − ")


def _unbroken(page: str) -> str:
    """Return a page on which no line ends between a number and its sign of percent."""
    return PERCENT.sub("\\1\u00a0%", page)


def _html_cells(table: TextTable) -> list[list[str]]:
    """Return the cells of a table for the page, names of coefficients as letters."""
    place = list(table.cells.columns).index(table.symbol) if table.symbol else -1
    return [
        [_symbol(cell) if index == place and cell else cell for index, cell in enumerate(row)]
        for row in table.cells.itertuples(index=False)
    ]


def _with_links(paragraph: str, keys: list[str]) -> Markup:
    """Return a paragraph whose citations are numbers that lead to the references."""

    def link(match: re.Match[str]) -> str:
        return f'<a href="#references">[{keys.index(match[1]) + 1}]</a>'

    return Markup(CITATION.sub(link, escape(paragraph)))
