"""Figures: one file each, each a function that returns a Matplotlib Figure."""

from bayes_cpt.plots.decomposition import decomposition
from bayes_cpt.plots.fitted import fitted
from bayes_cpt.plots.forecast import forecast
from bayes_cpt.plots.prior_posterior import prior_posterior
from bayes_cpt.plots.prior_predictive import prior_predictive

__all__ = ["decomposition", "fitted", "forecast", "prior_posterior", "prior_predictive"]
