"""The agents of a run, one node each."""
