"""A run on disk: its folder, its checkpoints, its record, and what drives it."""
