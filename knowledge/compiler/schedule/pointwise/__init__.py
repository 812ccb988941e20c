"""The schedule for graphs of elementwise operations."""
