"""The comparisons that a verdict rests on, one kind a file."""
