"""How the property tests draw their inputs."""

from __future__ import annotations

from hypothesis import settings

# `make test` says the same of the same tree, whenever and wherever it is run; `make fuzz` looks for what it has missed.
# No deadlines: a busy machine is no failure.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("fuzz", max_examples=2000, deadline=None)
settings.load_profile("repeatable")
