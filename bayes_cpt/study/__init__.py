"""Studies: schedules, runs, losses, their checks, readers of logs and folders, and the writer."""
