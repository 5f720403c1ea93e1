"""What the tool costs, beside other ways to do the same. Nothing here is a test."""
