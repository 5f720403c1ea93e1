"""From trainers' logs to runs of a study: raw logs are cleaned, understood and imported."""
