"""What the nodes hand each other, and nothing else."""

from __future__ import annotations

from typing import Literal

from harness.candidate import Candidate
from harness.frozen import Frozen
from harness.profile.summary import Profile
from harness.verdict import Status, Verdict

Agent = Literal["generator", "tester", "diagnoser", "repairer", "optimizer", "profiler"]


class Usage(Frozen):
    """What model calls cost; `+` adds them up. Tokens and dollars are 0 for the playbook."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    dollars: float = 0.0
    seconds: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(**{name: getattr(self, name) + getattr(other, name) for name in type(self).model_fields})


class Step(Frozen):
    """One line of the run's history. `speedup` is the best so far after this step, absent before the first pass."""

    depth: int
    agent: Agent
    move: str = ""
    candidate: str | None = None
    parent: str | None = None
    status: Status | None = None
    message: str = ""
    seconds: float = 0.0
    candidate_speedup: float | None = None
    speedup: float | None = None
    improved: bool = False
    usage: Usage = Usage()


class Best(Frozen):
    """The fastest verified kernel so far."""

    candidate: Candidate
    verdict: Verdict
    profile: Profile | None = None
