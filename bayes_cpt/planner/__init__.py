"""The planner: one page in which a run's forecast moves with its settings, computed from posterior draws."""
