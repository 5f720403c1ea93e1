"""What is sampled over: coordinates with straight ridges and open funnels, and the metric."""
