"""The judge's front door: describe a task, build a candidate, evaluate it, profile it."""

from __future__ import annotations

from harness.build import Build
from harness.candidate import Candidate
from harness.profile.summary import Profile
from harness.targets.target import Target
from harness.task import Task
from harness.verdict import Precision, Tier, Verdict


class Judge:
    """Judges candidates for one target. Threads may share it; evaluations take turns, builds do not."""

    def __init__(self, target: Target, *, tier: Tier, precision: Precision = "ieee") -> None:
        self.target = target
        self.tier = tier
        self.precision = precision

    def build(self, candidate: Candidate) -> Build:
        """Compile the candidate in isolation."""
        return self.target.compile(candidate, tier=self.tier)

    def evaluate(self, task: Task, candidate: Candidate, build: Build, *, seed: int | None = None) -> Verdict:
        """Check, then time the candidate. A failed build gives a `build_failed` verdict. `seed` replays a verdict."""
        ...

    def profile(self, task: Task, verdict: Verdict) -> Profile:
        """What limits a candidate that passed (`verdict.timing` and `verdict.build` are present)."""
        ...
