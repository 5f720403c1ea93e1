"""What training takes: data that runs out, GPU time and money."""
