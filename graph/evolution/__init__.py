"""The second graph: evolution, on the same judge, turns and run folders as the first."""
