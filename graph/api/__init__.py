"""cutegen from Python."""
