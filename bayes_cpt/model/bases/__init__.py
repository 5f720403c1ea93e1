"""Bases of which something is not known: their pre-training, or any run that they lie on."""
