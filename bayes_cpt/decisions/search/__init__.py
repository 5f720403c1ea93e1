"""Candidates, their losses in every draw, and the search among them."""
