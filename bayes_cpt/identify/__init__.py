"""What runs determine, what a model expects before them, and how far conclusions lean on priors."""
