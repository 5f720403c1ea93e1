"""The planner: one page in which a run's forecast moves with its settings, from posterior draws."""
