"""What agents call: compile, run, profile, patch."""
