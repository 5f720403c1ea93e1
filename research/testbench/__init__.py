"""Held-out runs as judge: baselines, scores and a command line (issue 2, point 3)."""
