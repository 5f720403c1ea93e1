"""A continual pre-training study of a language model, from packages that any machine can install."""
