"""The jobs of the judging child, and the warm parent that forks one for each."""
