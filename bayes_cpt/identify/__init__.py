"""What runs determine, what a model expects before them, and prior sensitivity."""
