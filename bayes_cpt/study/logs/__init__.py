"""From trainer logs to runs of a study: readers give raw logs, which are cleaned, understood and imported."""
