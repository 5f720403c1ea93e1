"""Decisions under the posterior: objectives, search spaces, risk measures, and what to train."""
