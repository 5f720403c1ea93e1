"""The words of each result."""
