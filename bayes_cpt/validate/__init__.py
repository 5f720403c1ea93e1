"""Validation: forecasts of held-out runs, and laws compared by them."""
