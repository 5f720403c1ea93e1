"""Timings of what must be fast; nothing here is a test."""
