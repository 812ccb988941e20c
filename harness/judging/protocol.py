"""What the agents' graph asks of a judge, whoever does the judging and wherever its device is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from harness.nouns.batches import Batches, ServedBatches
from harness.nouns.build import Build
from harness.nouns.candidate import Candidate, TargetChoice
from harness.nouns.contest import Contest
from harness.nouns.device import DeviceName
from harness.nouns.device_facts import DeviceFacts
from harness.nouns.profile import Profile
from harness.nouns.refusal import Refusal
from harness.nouns.sanitizer_run import SanitizerRun
from harness.nouns.task import DESCRIBE_S, Task
from harness.nouns.tier import Tier, TierChoice
from harness.nouns.verdict import Precision, Verdict


@dataclass(frozen=True)
class JudgeOrder:
    """Which judge is wanted. "auto" leaves the choice of target and isolation to the judge, which then tells its own.

    A `quick` one finds out less of a kernel, and sooner: enough to choose those that are worth a verdict. `ordinal`
    says on which of the target's devices, counted from 0. `describe_s` bounds how long describing a task may take.
    """

    target: TargetChoice = "auto"
    isolation: TierChoice = "auto"
    precision: Precision = "default"
    tolerance: float = 1.0
    quick: bool = False
    ordinal: int = 0
    describe_s: float = DESCRIBE_S


class Judge(Protocol):
    """Judges candidates, kernels or Python files, on one device. Threads may share it; it takes turns at the device.

    Every method raises `MachineError` where the machine, and not the kernel or the task, failed: a judge that has gone
    away among them. What failed so may be asked again.
    """

    @property
    def device(self) -> DeviceName:
        """The device that candidates run on."""
        ...

    @property
    def tier(self) -> Tier:
        """How it isolates what it runs."""
        ...

    def describe(self, source: str, *, name: str) -> Task:
        """The task that a KernelBench-style file's text is.

        Raises `UserError` where it is none, and `MachineError` where its arguments do not fit the device's memory.
        """
        ...

    def facts(self) -> DeviceFacts:
        """The device's ceilings."""
        ...

    def screen(self, task: Task, candidate: Candidate) -> Refusal | None:
        """Why the candidate's source may not run, told within milliseconds; None where nothing speaks against it."""
        ...

    def build(self, task: Task, candidate: Candidate) -> Build:
        """Make of the candidate what can run; a second time it is at hand."""
        ...

    def evaluate(
        self,
        task: Task,
        candidate: Candidate,
        build: Build | None = None,
        *,
        seed: int | None = None,
        incumbent: Candidate | None = None,
        compile_baseline: bool = False,
    ) -> Verdict:
        """Screen, build unless a `build` is given, check, then time the candidate. `seed` replays a verdict.

        A source that the screen refuses is not built: its verdict holds a build only where one was given.
        With a `incumbent`, a kernel that passed before, that one runs in the same rounds and the timing holds their
        head-to-head, which says so and was not run where both are the same machine code; with `compile_baseline`
        torch.compile's version of the reference does.
        """
        ...


class KernelJudge(Judge, Protocol):
    """A judge of kernels. It also times several together, profiles, sanitizes, and times the exported drop-in."""

    def contest(self, task: Task, candidates: Sequence[Candidate]) -> Contest:
        """Two kernels or more that have passed, and eager, timed in the same rounds; each of them is in the contest.

        Nothing is judged but what timed calls leave behind. Raises `ValueError` for fewer than two.
        """
        ...

    def profile(self, task: Task, candidate: Candidate, verdict: Verdict) -> Profile:
        """What limits a candidate that passed with this verdict. Raises `ValueError` for any other."""
        ...

    def sanitize(self, task: Task, candidate: Candidate) -> tuple[SanitizerRun, ...]:
        """What sanitizers say of a candidate, right or wrong, on each of the task's workloads.

        Raises `ValueError` for a source that the screen refuses: it is not run under a tool either.
        """
        ...

    def as_called(self, task: Task, candidate: Candidate, verdict: Verdict, drop_in: Mapping[str, str]) -> Verdict:
        """A passed verdict whose timing also says how fast the exported module is for a caller.

        `drop_in` holds its texts by their names. Where that cannot be had the timing says why. Any other verdict is
        returned as it is.
        """
        ...

    def batches(self, task: Task) -> Batches:
        """At which batches beside its own the task's forward is the same, of a file that declares none."""
        ...

    def serves(self, task: Task, candidate: Candidate, batches: Batches) -> ServedBatches:
        """At which of these batches a kernel that passed is right, too, and no slower than eager."""
        ...


OpenJudge = Callable[[JudgeOrder], KernelJudge]
"""Raises `MachineError` where there is no such judge, or nothing could run on its device."""
