"""Text for training: packages, what is kept of them, and duplicates."""
