"""Laws of final losses that others published, as baselines."""
