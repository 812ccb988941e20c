"""Into a task and out of a run: live modules, and drop-ins."""
