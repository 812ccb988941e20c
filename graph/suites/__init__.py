"""Many tasks, or one task under several settings."""
