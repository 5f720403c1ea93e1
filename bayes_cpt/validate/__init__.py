"""Validation: forecasts of runs that no fit saw, and simulation-based calibration."""
