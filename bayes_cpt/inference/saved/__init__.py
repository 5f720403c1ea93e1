"""A fit as a file: its groups, its tree, and how it is written and read."""
