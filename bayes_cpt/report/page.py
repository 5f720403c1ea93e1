"""The report of a fit: everything it says, computed once, and the HTML page that needs nothing else."""

import base64
import io
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from html import escape
from pathlib import Path
from shlex import quote
from typing import Any, Self

import numpy as np
import pandas as pd
import xarray as xr
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from bayes_cpt.decisions.decision import Decision, decide
from bayes_cpt.errors import ProblemError
from bayes_cpt.forecast.predict import table
from bayes_cpt.forecast.quality import fit_quality
from bayes_cpt.identify.determination import Facts, determination
from bayes_cpt.inference.posterior import Posterior
from bayes_cpt.model.spec import shipped_models
from bayes_cpt.report import fit, results
from bayes_cpt.report.decisions import edge_words, optimum_sentences
from bayes_cpt.report.equation import lettered, mathml_equations, mathml_symbol
from bayes_cpt.report.forecasts import forecast_words
from bayes_cpt.report.methods import CITATION, bibtex, cited, methods, versions
from bayes_cpt.report.numbers import judged
from bayes_cpt.report.tables import Table
from bayes_cpt.report.words import environment, notation, sentence
from bayes_cpt.study.study import Study
from bayes_cpt.validate.held_out import score_table
from bayes_cpt.validate.scores import ALL_DOMAINS, ALL_RUNS
from bayes_cpt.validate.tasks import SETTINGS

DRAWS = 1000
POINTS = "points.csv"
# Fitted runs that are drawn; of more, those at even distances in replay ratio.
MOST_RUNS = 4
# Width of a figure that a telephone shows whole, inches.
NARROW = 3.6
# The same figure gives the same bytes.
SVG_SETTINGS = {"svg.hashsalt": "bayes_cpt"}
PIXELS_PER_INCH = 96
# Of parts of a figure with more points than are worth a path each.
DOTS_PER_INCH = 200


def pooled(scores: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of `bayes_cpt.validate.held_out.score_table` over all runs and validation sets."""
    of_all = scores[scores["run"] == ALL_RUNS]
    together = of_all[of_all["domain"] == ALL_DOMAINS]
    return together if len(together) else of_all


@dataclass(frozen=True, eq=False)
class Calibration:
    """Scores of forecasts of held-out points."""

    points: pd.DataFrame  # a row per held-out point (see `bayes_cpt.validate.held_out.score_folds`)
    # Of `bayes_cpt.validate.held_out.score_table`, over all runs and validation sets
    pooled: pd.DataFrame
    caution: str  # in what the validated fit differs from the reported one; empty where in nothing

    @classmethod
    def read(cls, folder: str | Path, posterior: Posterior) -> Self:
        """Return what ``bayes-cpt validate STUDY -o FOLDER`` wrote, beside the reported fit."""
        place = Path(folder)
        try:
            points = pd.read_csv(place / POINTS)
            settings = json.loads((place / SETTINGS).read_text(encoding="utf-8"))
            summary = score_table(points)
            validated = {"model": settings["model"], "study": settings["study"]}
        except (OSError, ValueError, KeyError, TypeError):
            problem = "this is not what bayes-cpt validate writes"
            fix = "name the folder of its option -o"
            raise ProblemError.at(str(place), problem, fix) from None
        digest = posterior.tree.attrs["study_digest"]
        reported = {"model": posterior.frame.spec.name, "study": digest}
        differs = [what for what, own in reported.items() if own != validated[what]]
        caution = f"The validation is of another {' and '.join(differs)}." if differs else ""
        return cls(points, pooled(summary), caution)

    @cached_property
    def judged(self) -> list[tuple[str, str]]:
        """What each row of scores says of the bands: by `bayes_cpt.report.numbers.judged`, and in words."""
        said = partial(sentence, "validate.txt", "bands")
        rows = self.pooled.to_dict("records")
        return [(judged(row), f"{said({'first': row})}.") for row in rows]


@dataclass(frozen=True, eq=False)
class Report:
    """A fit and what follows from it."""

    posterior: Posterior
    decision: Decision | None  # what to train; None where the law is of pre-training alone
    plan: Study | None  # runs that are forecast; None where there are none
    calibration: Calibration | None  # of forecasts of held-out runs; None where nobody looked
    interval: float  # mass of the intervals
    seed: int  # of the forecast
    command: str  # what makes the report again

    @cached_property
    def curves(self) -> xr.Dataset | None:
        """The forecast, in the draws of the decision: its table says the same of a run."""
        if self.plan is None:
            return None
        asked: Any = {"draws": DRAWS, "seed": self.seed, "interval": self.interval}
        if self.decision is not None:
            valuation = self.decision.valuation
            asked |= {"draws": valuation.model.draws, "sets": tuple(valuation.thirds)}
        return self.posterior.predict(self.plan, **asked)

    @cached_property
    def bands(self) -> pd.DataFrame | None:
        """The bands of the forecast."""
        return None if self.curves is None else table(self.curves)

    @cached_property
    def determined(self) -> pd.DataFrame:
        """What the runs determine (see `bayes_cpt.identify.determination.determination`)."""
        return determination(self.posterior, self.interval)

    @property
    def facts(self) -> Facts:
        """What of it is determined, and what is left open."""
        return Facts.of(self.determined)

    @cached_property
    def quality(self) -> pd.DataFrame:
        """How the curves lie on the losses (see `bayes_cpt.forecast.quality.fit_quality`)."""
        return fit_quality(self.posterior)

    @cached_property
    def quantities(self) -> pd.DataFrame:
        """Coefficients and parameters (see `Posterior.summary`)."""
        return self.posterior.summary(self.interval)

    @cached_property
    def reached(self) -> dict[str, Any]:
        """The diagnostics of the fit."""
        return fit.convergence(self.posterior, self.quantities)

    @cached_property
    def tables(self) -> dict[str, Table]:
        """Tables of results, by name: effects, letters, coefficients, choices, forecast, calibration."""
        coefficients = self.quantities[self.quantities["kind"] == "coefficient"]
        tables = [
            results.effects_table(self.posterior, self.determined, self.interval),
            results.letters_table(self.posterior.frame),
            results.quantities_table(self.posterior, coefficients, self.interval),
        ]
        if self.decision is not None:
            tables.append(results.choices_table(self.decision, self.decision.table(self.interval)))
        if self.bands is not None:
            tables.append(results.forecast_table(self.bands))
        if self.calibration is not None:
            tables.append(results.scores_table(self.calibration.pooled))
        return {table.label: table for table in tables}

    @cached_property
    def verdict(self) -> list[str]:
        """What to do, how sure that is and what would change it; of a PT law what it has learnt."""
        if self.decision is not None:
            lines = fit.warned(self.posterior, self.decision.verdict(self.interval))
        else:
            lines = fit.fit_verdict(self.posterior, self.quality, self.facts)
        return [*self.narrow, *lines]

    @property
    def narrow(self) -> list[str]:
        """That the bands are too narrow, where `validate` says so first of this study and model."""
        own = self.calibration
        told = own.judged[:1] if own and not own.caution else []
        return [line for verdict, line in told if verdict == "narrow"]

    @cached_property
    def sentences(self) -> list[str]:
        """Sentences for a paper: the best choice and where forecast runs end, else what is determined."""
        sentences = [] if self.decision is None else optimum_sentences(self.decision, self.interval)
        sentences += [] if self.bands is None else forecast_words(self.bands).sentences
        sentences = sentences or fit.summarise(self.facts, fitted=True)
        return fit.warned(self.posterior, sentences, advice=False)

    @cached_property
    def methods(self) -> list[str]:
        """How the fit was made, in paragraphs that cite works as ``[@key]``."""
        return methods(
            self.posterior,
            self.interval,
            reached=self.reached,
            choice=self.decision.valuation if self.decision else None,
            scores=self.calibration.pooled.to_dict("records") if self.calibration else (),
        )

    def figures(self, width: float | None) -> dict[str, Callable[[], Figure]]:
        """Return what draws the figures of page and paper, by name; `width` is of a column, inches."""
        from bayes_cpt import plots

        drawn: dict[str, Callable[[], Figure]] = {}
        if self.curves is not None:
            drawn["forecast"] = partial(plots.forecast, self.posterior, self.curves, width=width)
        drawn["sampling"] = partial(plots.sampling, self.posterior, self.quantities)
        return drawn

    def html(self) -> str:
        """Return the report as one HTML page that needs nothing else."""
        posterior, frame = self.posterior, self.posterior.frame
        keys = cited("\n\n".join(self.methods))
        template = environment().get_template("report.html")
        page = template.render(
            report=self,
            posterior=posterior,
            frame=frame,
            shipped=frame.spec.name in shipped_models(),
            # What makes words and tables of these.
            fit=fit,
            results=results,
            edge_words=edge_words,
            letter=lambda name: Markup(mathml_symbol(name)),
            lettered=lambda said: Markup(lettered(said, mathml_symbol, escape)),
            equations=mathml_equations(frame),
            drawings=_drawings(self),
            versions=json.loads(posterior.tree.attrs["versions"]) or versions(posterior),
            methods=[_with_links(paragraph, keys) for paragraph in self.methods],
            references=bibtex(posterior, keys),
        ).strip()
        # No line ends between a number and its percent sign.
        return re.sub(r"(\d) %", "\\1\u00a0%", page)


def report(
    posterior: Posterior,
    path: str | Path | None = None,
    *,
    objective: Any = "balanced",
    space: Any = None,
    plan: Study | str | Path | None = None,
    validation: str | Path | None = None,
    interval: float = 0.9,
    draws: int = DRAWS,
    seed: int = 0,
) -> Report:
    """Return the report of a fit, and write its page where a path is given.

    Parameters
    ----------
    posterior : Posterior
    path : path, optional
        File to write, ending in .html.
    objective, space
        As for `bayes_cpt.decide`.
    plan : Study or path, optional
        Runs to forecast; the run that is recommended unless given.
    validation : path, optional
        Folder that ``bayes-cpt validate`` filled for this study.
    interval : float
        Mass of the intervals.
    draws : int
        Posterior draws behind the decision.
    seed : int
        Of decision and forecast.

    Raises
    ------
    StudyError, SpecError, ProblemError
        Naming what is wrong with plan, objective, space or validation.
    OSError
        If the file cannot be written; an old one is then left as it was.

    Examples
    --------
    >>> import bayes_cpt                                        # doctest: +SKIP
    >>> bayes_cpt.load("fit.nc").report("report.html")          # doctest: +SKIP
    """
    from bayes_cpt.files import replacing
    from bayes_cpt.study.folder import read_plan

    posterior.check_one_law("a report")
    asked = {"objective": objective, "space": space, "plan": plan, "validation": validation}
    said = "".join(
        f" --{name} {quote(str(own)) if isinstance(own, str | Path) else name.upper()}"
        for name, own in asked.items()
        if own is not None
    )
    command = f"bayes-cpt report FIT{said} --interval {interval} --draws {draws} --seed {seed}"
    command += " -o report.html"
    calibration = None if validation is None else Calibration.read(validation, posterior)
    planned = read_plan(plan, posterior.study) if isinstance(plan, str | Path) else plan
    decision = None
    if posterior.frame.spec.law.continual:
        decision = decide(posterior, objective, space, draws=draws, seed=seed)
        if planned is None:
            contenders = decision.plan()
            planned = contenders.subset([contenders.runs[0].name])
    full_report = Report(posterior, decision, planned, calibration, interval, seed, command)
    if path is not None:
        text = full_report.html()
        with replacing(path) as partial:
            partial.write_text(text, encoding="utf-8")
    return full_report


def _drawing(figure: Figure, words: dict[str, str]) -> dict[str, Any]:
    """Return a figure for a page: its address, which holds the SVG itself, size in pixels, and words."""
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    buffer = io.BytesIO()
    # Transparent: the page's own background shows, light or dark.
    parts: list[Figure | SubFigure | Axes] = [figure, *figure.subfigs, *figure.axes]
    for part in parts:
        part.patch.set(facecolor="none", edgecolor="none")
    with mpl.rc_context(SVG_SETTINGS):
        # By the canvas: Figure.savefig lays a figure out twice and draws it twice.
        figure.set_dpi(DOTS_PER_INCH)
        FigureCanvasSVG(figure).print_svg(buffer, metadata={"Date": None})
    text = base64.b64encode(buffer.getvalue()).decode("ascii")
    width, height = (round(PIXELS_PER_INCH * inches) for inches in figure.get_size_inches())
    source = f"data:image/svg+xml;base64,{text}"
    return {**words, "source": source, "width": width, "height": height}


def _drawings(report: Report) -> dict[str, dict[str, Any]]:
    from bayes_cpt import plots

    fitted = report.posterior.frame.spec.law.last_phase_runs(report.posterior.study)
    # A few of them, spread over the replay ratios.
    ordered = sorted(fitted, key=lambda run: (run.replay or 0.0, run.name))
    places = np.linspace(0, len(ordered) - 1, min(MOST_RUNS, len(ordered))).round().astype(int)
    shown = [ordered[place].name for place in places]
    figures = {"fitted": plots.fitted(report.posterior, shown)}
    width = NARROW if report.curves is not None and report.curves.sizes["run"] == 1 else None
    figures |= {name: draw() for name, draw in report.figures(width).items()}
    if report.decision is not None:
        figures["decision"] = plots.decision(report.decision)
    if report.calibration is not None:
        points = report.calibration.points
        whole = points[points["seen"] == 0]
        figures["calibration"] = (
            plots.coverage(whole, "share") if len(whole) else plots.coverage(points, "ratio")
        )
    words = notation()["figures"]
    caption = f"{words['fitted']['caption']} Shown are {len(shown)} of {len(fitted)} runs."
    alone = len(report.posterior.frame.domains) == 1
    words = words | {
        "fitted": words["fitted"] | {"caption": caption},
        "decision": words["decision_alone" if alone else "decision"],
    }
    return {name: _drawing(figure, words[name]) for name, figure in figures.items()}


def _with_links(paragraph: str, keys: list[str]) -> Markup:
    """Return a paragraph whose citations are numbers that lead to the references."""

    def link(match: re.Match[str]) -> str:
        return f'<a href="#references">[{keys.index(match[1]) + 1}]</a>'

    return Markup(CITATION.sub(link, escape(paragraph)))
