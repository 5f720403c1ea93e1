"""Runs in groups that are alike but not the same: model sizes, target domains."""
