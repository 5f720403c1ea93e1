"""Everything that a report of a fit says, computed once: for the page and for a paper."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayes_cpt.report.page.calibration import Calibration
from bayes_cpt.report.paper.convergence import Convergence
from bayes_cpt.report.paper.methods import methods
from bayes_cpt.report.paper.result_tables import (
    choices_table,
    effects_table,
    forecast_table,
    quantities_table,
)
from bayes_cpt.report.paper.sentences import forecast_sentences, optimum_sentences
from bayes_cpt.report.paper.tables import TextTable
from bayes_cpt.report.words.fit import fit_verdict
from bayes_cpt.views import view

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from bayes_cpt.decisions.contenders import Surface
    from bayes_cpt.decisions.decision import Decision
    from bayes_cpt.inference.posterior import Posterior
    from bayes_cpt.study.study import Study

DRAWS, FIGURE_DRAWS = 1000, 300


@dataclass(frozen=True, eq=False)
class Report:
    """A fit and what follows from it.

    Parameters
    ----------
    posterior : Posterior
    decision : Decision or None
        What to train; None where the law is of pre-training alone.
    plan : Study or None
        Runs that are forecast; None where there are none.
    calibration : Calibration or None
        How forecasts of held-out runs turned out; None where nobody looked.
    interval : float
        Mass of the intervals.
    seed : int
        Of the forecast.
    command : str
        What makes the report again.
    """

    posterior: "Posterior"
    decision: "Decision | None"
    plan: "Study | None"
    calibration: Calibration | None
    interval: float
    seed: int
    command: str

    @cached_property
    def bands(self) -> "pd.DataFrame | None":
        """The bands of the forecast, in the draws of the decision: its table says the same of a run."""
        from bayes_cpt.forecast.bands import bands

        if self.plan is None:
            return None
        draws = DRAWS if self.decision is None else self.decision.valuation.model.draws
        return bands(self.posterior, self.plan, draws=draws, seed=self.seed, interval=self.interval)

    @cached_property
    def curves(self) -> "xr.Dataset | None":
        """Draws of the forecast, to be drawn."""
        if self.plan is None:
            return None
        return self.posterior.predict(self.plan, seed=self.seed, draws=FIGURE_DRAWS)

    @cached_property
    def surface(self) -> "Surface | None":
        """Final losses over two choices; None where no two were searched over a range."""
        if self.decision is None or not self.decision.has_surface:
            return None
        return self.decision.surface()

    @cached_property
    def determined(self) -> "pd.DataFrame":
        """What the runs determine (see `bayes_cpt.identify.determination.determination`)."""
        from bayes_cpt.identify.determination import determination

        return determination(self.posterior, self.interval)

    @cached_property
    def quality(self) -> "pd.DataFrame":
        """How the curves lie on the losses (see `bayes_cpt.forecast.quality.fit_quality`)."""
        from bayes_cpt.forecast.quality import fit_quality

        return fit_quality(self.posterior)

    @cached_property
    def quantities(self) -> "pd.DataFrame":
        """Coefficients and parameters (see `Posterior.summary`)."""
        return self.posterior.summary(self.interval)

    @cached_property
    def reached(self) -> Convergence:
        """The diagnostics of the fit."""
        return Convergence.of(self.posterior, self.quantities)

    @cached_property
    def tables(self) -> dict[str, TextTable]:
        """The tables of results, by name: effects, coefficients, and choices, forecast, calibration."""
        rows = self.quantities
        coefficients = rows[rows["kind"] == "coefficient"]
        tables = {
            "effects": effects_table(self.posterior, self.determined, self.interval),
            "coefficients": quantities_table(self.posterior, coefficients, self.interval),
        }
        if self.decision is not None:
            tables["choices"] = choices_table(self.decision, self.interval)
        if self.bands is not None:
            tables["forecast"] = forecast_table(self.bands)
        if self.calibration is not None:
            tables["calibration"] = self.calibration.table()
        return tables

    @cached_property
    def verdict(self) -> list[str]:
        """What to do, how sure that is and what would change it; of a PT law what it has learnt."""
        if self.decision is not None:
            return self.decision.verdict(self.interval)
        return fit_verdict(self.posterior, self.quality, self.determined)

    @cached_property
    def sentences(self) -> list[str]:
        """Sentences that are ready for a paper: the best choice, and where forecast runs end."""
        sentences = [] if self.decision is None else optimum_sentences(self.decision, self.interval)
        return sentences if self.bands is None else sentences + forecast_sentences(self.bands)

    @cached_property
    def methods(self) -> tuple[str, ...]:
        """How the fit was made, in paragraphs that cite works as ``[@key]``."""
        return methods(
            self.posterior,
            self.interval,
            reached=self.reached,
            draws=self.decision.valuation.model.draws if self.decision else 0,
            scores=self.calibration.scores() if self.calibration else (),
        )

    def html(self) -> str:
        """Return the report as one HTML page that needs nothing else."""
        return str(view(self, "html"))


def report(
    posterior: "Posterior",
    path: str | Path | None = None,
    *,
    objective: Any = "balanced",
    space: Any = None,
    plan: "Study | str | Path | None" = None,
    validation: str | Path | None = None,
    interval: float = 0.9,
    draws: int = DRAWS,
    seed: int = 0,
    command: str = "",
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
        Folder that ``bayes-cpt validate forecast`` filled for this study.
    interval : float
        Mass of the intervals.
    draws : int
        Posterior draws behind the decision.
    seed : int
        Of decision and forecast.
    command : str
        What the report says makes it again.

    Returns
    -------
    Report

    Raises
    ------
    StudyError, SpecError, ValidationError
        Naming what is wrong with plan, objective, space or validation.
    OSError
        If the file cannot be written; an old one is then left as it was.

    Examples
    --------
    >>> import bayes_cpt                                        # doctest: +SKIP
    >>> bayes_cpt.load("fit.nc").report("report.html")          # doctest: +SKIP
    """
    from bayes_cpt.decisions.decision import decide
    from bayes_cpt.files import replacing
    from bayes_cpt.study.folder import read_plan

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
