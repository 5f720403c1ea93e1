"""Studies in our format from the files that others published with their papers."""
