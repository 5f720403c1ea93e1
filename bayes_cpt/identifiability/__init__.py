"""What runs determine of the law, before a fit and after it, and which further runs would tell more."""
