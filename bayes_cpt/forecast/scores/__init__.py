"""Scores of benchmarks, forecast from validation losses (docs/scores.md)."""
