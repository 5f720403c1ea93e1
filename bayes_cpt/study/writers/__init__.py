"""From studies and plans to files."""
