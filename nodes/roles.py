"""Who may take a step of a run, and who of them speaks to a model."""

from __future__ import annotations

from typing import Literal

Agent = Literal["generator", "tester", "diagnoser", "repairer", "optimizer", "sweeper", "profiler", "sanitizer"]
"""Who may take a step of a trajectory, the graph `cutegen`."""
Stepper = Literal[Agent, "proposer", "archivist", "verifier", "summarizer"]
"""Who may take a step of any run."""
Speaker = Literal["generator", "diagnoser", "repairer", "optimizer"]
"""Who speaks to a model in a trajectory."""
Voice = Literal[Speaker, "proposer", "verifier", "summarizer"]
"""Who speaks to a model in any graph."""
