"""Recipes: each matches some forwards, knows its knobs and moves, and writes the kernel."""
