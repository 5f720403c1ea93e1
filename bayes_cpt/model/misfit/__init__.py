"""What the law misses: of runs that are alike, and of bases that nobody measured."""
