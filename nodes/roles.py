"""Who may take a step of a run, and who of them speaks to a model."""

from __future__ import annotations

from typing import Literal

Agent = Literal["generator", "tester", "diagnoser", "repairer", "optimizer", "sweeper", "profiler", "sanitizer"]
"""Who may take a step of a trajectory, the graph `cutegen`."""
Stepper = Literal[Agent, "proposer", "archivist", "verifier", "summarizer", "reviewer", "ablator"]
"""Who may take a step of any run."""
Speaker = Literal["generator", "diagnoser", "repairer", "optimizer"]
"""Who always speaks to a model in a trajectory; a reviewer does where there is one."""
Voice = Literal[Speaker, "proposer", "verifier", "summarizer", "reviewer"]
"""Who speaks to a model in any graph."""
KEYLESS = "playbook"
"""The model that writes by rules, and has no opinion on kernels."""
