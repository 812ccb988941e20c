"""Tasks and kernels for the judge's tests; one judge for the session."""

from __future__ import annotations

import textwrap

import pytest
from brief_terms import MANY_BYTES, brief
from kernel_frame import HEAD, TAIL
from own_turns import own_turns

from harness.isolation.tiers import resolve_tier
from harness.judging.local import LocalJudge
from harness.judging.terms import Terms
from harness.nouns.build import Build
from harness.nouns.candidate import Candidate
from harness.nouns.task import Task
from harness.nouns.verdict import Verdict
from harness.targets.cpu import CpuTarget
from harness.tasks.describing import describe_task

SOFTSIGN = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return x / (1 + x.abs())

def get_inputs():
    return [torch.rand(37, 129)]
"""


class Unscreened(LocalJudge):
    """For the checks behind the screen: these must hold against a kernel that got past it."""

    def screen(self, task: Task, candidate: Candidate) -> None:
        return None

    def screen_build(self, build: Build) -> None:
        return None

    def screen_data(self, candidate: Candidate, build: Build) -> None:
        return None


class Bench:
    """Describes tasks once and judges kernel bodies."""

    softsign = SOFTSIGN

    def __init__(self) -> None:
        self.tier = resolve_tier("auto")
        self.judge = Unscreened(CpuTarget(), brief(Terms(self.tier), MANY_BYTES))
        self._tasks: dict[str, Task] = {}

    def task(self, source: str) -> Task:
        source = textwrap.dedent(source)
        if source not in self._tasks:
            self._tasks[source] = describe_task(source, name="task", tier=self.tier)
        return self._tasks[source]

    def build(self, body: str) -> tuple[Candidate, Build]:
        candidate = Candidate(source=HEAD + textwrap.dedent(body) + TAIL, target="cpu", author="test")
        return candidate, self.judge.build(self.task(SOFTSIGN), candidate)

    def verdict(self, body: str, source: str = SOFTSIGN, seed: int = 1) -> Verdict:
        candidate, build = self.build(body)
        with own_turns():
            return self.judge.evaluate(self.task(source), candidate, build, seed=seed)


@pytest.fixture(scope="session")
def bench() -> Bench:
    return Bench()
