"""Held-out runs as judge: baselines, scores and a command line."""
