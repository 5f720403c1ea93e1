"""What goes into a paper: tables, ready sentences, a methods paragraph and its references."""
