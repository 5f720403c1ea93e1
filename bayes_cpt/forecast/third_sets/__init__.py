"""Validation sets that are neither general nor target: their losses from those of the two (Eq. 6)."""
