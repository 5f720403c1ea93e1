"""Figures: each a function that returns a Matplotlib Figure."""

from bayes_cpt.plots.curves import fitted, forecast, prior_predictive
from bayes_cpt.plots.decisions import decision, next_run, schedules
from bayes_cpt.plots.landmarks import decomposition, hidden_curves, landmarks, response
from bayes_cpt.plots.validation import comparison, coverage, sampling

__all__ = [
    "comparison",
    "coverage",
    "decision",
    "decomposition",
    "fitted",
    "forecast",
    "hidden_curves",
    "landmarks",
    "next_run",
    "prior_predictive",
    "response",
    "sampling",
    "schedules",
]
