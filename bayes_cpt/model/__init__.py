"""From a specification and a study to the PyMC model: priors, points, residuals."""
