"""Laws beside each other on runs that no fit saw, and stacks of them."""
