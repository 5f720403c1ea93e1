"""How areas are computed fast: recursions over panels, series over ranges, batches of schedules."""
