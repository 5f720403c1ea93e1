"""What the fitted runs tell of runs that no fit saw."""
