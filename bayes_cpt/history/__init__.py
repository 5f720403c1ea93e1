"""Priors learnt from many studies."""
