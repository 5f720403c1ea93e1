"""The best falling learning rate."""
