"""Figures: one file each, each a function that returns a Matplotlib Figure."""

from bayes_cpt.plots.calibration import calibration
from bayes_cpt.plots.comparison import comparison
from bayes_cpt.plots.coverage import coverage
from bayes_cpt.plots.decision import decision
from bayes_cpt.plots.decomposition import decomposition
from bayes_cpt.plots.fitted import fitted
from bayes_cpt.plots.forecast import forecast
from bayes_cpt.plots.free_schedule import free_schedule
from bayes_cpt.plots.hidden_curves import hidden_curves
from bayes_cpt.plots.landmarks import landmarks
from bayes_cpt.plots.loss_surface import loss_surface
from bayes_cpt.plots.next_run import next_run
from bayes_cpt.plots.prior_posterior import prior_posterior
from bayes_cpt.plots.prior_predictive import prior_predictive
from bayes_cpt.plots.residuals import residuals
from bayes_cpt.plots.response import response
from bayes_cpt.plots.ridges import ridges
from bayes_cpt.plots.sampling import sampling

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
    "loss_surface",
    "next_run",
    "prior_posterior",
    "prior_predictive",
    "residuals",
    "response",
    "ridges",
    "sampling",
]
