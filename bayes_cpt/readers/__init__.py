"""Logs and folders -> Study."""
