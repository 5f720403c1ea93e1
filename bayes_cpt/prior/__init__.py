"""Priors: their distributions and draws, what they expect, how they are stated, and what leans on them."""
