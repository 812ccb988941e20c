"""The schedule for reductions along rows."""
