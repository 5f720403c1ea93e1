"""Validation: forecasts of held-out runs, and simulation-based calibration."""
