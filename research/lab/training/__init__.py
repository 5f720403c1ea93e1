"""Training: the list of runs, the order of the data, the model and its checkpoints."""
