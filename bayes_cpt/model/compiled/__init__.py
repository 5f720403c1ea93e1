"""The law and the likelihood as compiled code: gradients for the sampler, bands for forecasts."""
