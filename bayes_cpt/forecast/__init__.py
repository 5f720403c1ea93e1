"""From a posterior and a plan to predictive curves and bands."""
