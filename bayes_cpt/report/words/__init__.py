"""The words of each result, from templates: one file per verb."""
