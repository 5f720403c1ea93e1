"""Which short run is worth most to a decision."""
