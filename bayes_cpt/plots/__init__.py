"""Figures: each a function that returns a Matplotlib Figure."""

from bayes_cpt.plots.comparison import comparison
from bayes_cpt.plots.coverage import calibration, coverage
from bayes_cpt.plots.decision import decision
from bayes_cpt.plots.diagnostics import ridges, sampling
from bayes_cpt.plots.fitted import fitted, residuals
from bayes_cpt.plots.forecast import forecast
from bayes_cpt.plots.free_schedule import free_schedule
from bayes_cpt.plots.landmarks import decomposition, hidden_curves, landmarks, response
from bayes_cpt.plots.next_run import next_run
from bayes_cpt.plots.priors import prior_predictive

__all__ = [
    "calibration",
    "comparison",
    "coverage",
    "decision",
    "decomposition",
    "fitted",
    "forecast",
    "free_schedule",
    "hidden_curves",
    "landmarks",
    "next_run",
    "prior_predictive",
    "residuals",
    "response",
    "ridges",
    "sampling",
]
