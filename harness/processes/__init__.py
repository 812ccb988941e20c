"""How the judge's child processes are started, and what they may reach."""
