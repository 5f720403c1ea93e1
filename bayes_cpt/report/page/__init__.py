"""The report of a fit: one HTML file that needs nothing else."""
