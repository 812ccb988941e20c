"""What `make gpu-check` finds on a machine with a GPU: one value, stored as JSON, that docs/suites.md is made from."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from graph.runs.ablation import Ablation
from graph.runs.machine import Machine
from graph.runs.suite_record import SuiteRecord
from harness.nouns.frozen import Frozen, SanitizedText


class FailedTest(Frozen):
    """A test's name, and the end of what pytest said of it."""

    test: str
    said: SanitizedText


class GpuTests(Frozen):
    """The outcome of the GPU-marked tests. `seconds` are the tests' own, which run side by side.

    Where the time was over before all had run, `complete` is false, and the counts are of those that had. `slowest` are
    those that took longest, with their seconds.
    """

    passed: int
    failed: int
    skipped: int
    seconds: float
    failures: tuple[FailedTest, ...] = ()
    complete: bool = True
    slowest: tuple[str, ...] = ()


class ProfiledKernel(Frozen):
    """A kernel's profile as an optimizer reads it."""

    task: str
    move: str
    speedup: float
    text: str


class GpuResult(Frozen):
    """Parts that were not measured are absent; `problems` say why, one sentence each.

    `phases` are median seconds from a new CuTe GEMM's source to its verdict. `commands` are what was run; `notes` what
    whoever ran them has to add.
    """

    schema_version: Literal[1] = 1
    machine: Machine
    driver: str
    measured_at: datetime
    commands: tuple[str, ...]
    tests: GpuTests | None = None
    phases: dict[str, float] | None = None
    suite: SuiteRecord | None = None
    ablations: tuple[Ablation, ...] = ()
    profiles: tuple[ProfiledKernel, ...] = ()
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
