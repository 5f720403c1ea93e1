"""From the model to draws: metric, NUTS, diagnostics, the posterior and its file."""
