"""What the nodes hand each other, and nothing else."""

from __future__ import annotations

from operator import add
from typing import Annotated, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from harness.nouns.candidate import Candidate, TargetName
from harness.nouns.contest import Standing
from harness.nouns.frozen import Frozen, Label, SanitizedText
from harness.nouns.profile import Profile
from harness.nouns.task import Task
from harness.nouns.tier import Tier
from harness.nouns.verdict import HeadToHead, Interval, Measure, Status, Timing, Verdict
from nodes.assessment import Critique, Diagnosis
from nodes.roles import Stepper
from nodes.thread_settings import ThreadSettings, latest
from tools.sweep import Sweep

StopName = Literal[
    "depth",
    "generations",
    "attempts",
    "wall_time",
    "tokens",
    "dollars",
    "calls",
    "builds",
    "device_time",
    "target_speedup",
    "roof_share",
    "patience",
    "no_moves_left",
    "declined",
    "model_unusable",
    "repairs_exhausted",
]

Value = TypeVar("Value")


class FellBack(Frozen):
    """A model failed for good, and another one answered in its place. Both as the settings name them."""

    model: str
    answered_by: str
    because: SanitizedText

    @property
    def sentence(self) -> str:
        """For the user."""
        return f"{self.answered_by} goes on for {self.model}. {self.because}"


def money(dollars: float) -> str:
    """Dollars, to the cent where there are some."""
    return f"${dollars:.2f}" if dollars == 0 or dollars >= 0.1 else f"${dollars:.4f}"


class Usage(Frozen):
    """What model calls cost; `+` adds them up. Tokens and dollars are 0 for the playbook.

    `cached_tokens` are the part of `input_tokens` that the provider had kept from earlier prompts. `dollars` are those
    of the calls with a known price; `unpriced_calls` counts the others. `seconds` is the time of the calls themselves,
    `device_seconds` that of the kernels which the models had run, `builds` counts those that they had compiled.
    """

    calls: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    dollars: float = 0.0
    unpriced_calls: int = 0
    seconds: float = 0.0
    device_seconds: float = 0.0
    builds: int = 0
    fell_back: tuple[FellBack, ...] = ()

    def __add__(self, other: Usage) -> Usage:
        numbers = type(self).model_fields.keys() - {"fell_back"}
        return Usage(
            **{name: getattr(self, name) + getattr(other, name) for name in numbers},
            fell_back=tuple(dict.fromkeys((*self.fell_back, *other.fell_back))),
        )

    @property
    def tokens(self) -> int:
        """Prompts and answers together."""
        return self.input_tokens + self.output_tokens

    @property
    def cost(self) -> str:
        """The dollars in words. What has no known price is not called free."""
        if self.unpriced_calls == 0:
            return money(self.dollars)
        if self.unpriced_calls == self.calls:
            return "unknown price"
        return f"{money(self.dollars)} and {self.unpriced_calls} of {self.calls} calls of unknown price"


class Variant(Frozen):
    """One combination of a sweep's values, and how it came out. No `status`: a budget was spent before its turn.

    `latency_ms` and `speedup` (over the baseline) are there where it is right; they were measured in a short timing, in
    rounds of its own. Variants are ranked by `gain`, over the kernel that the move starts from, where all have met it,
    else by `speedup`; `interval` is that figure's, by `measure`. The first two are ranked by `met`, the one's
    head-to-head with the other, where they had one.
    """

    values: dict[str, str]
    status: Status | None = None
    message: SanitizedText = ""
    latency_ms: float | None = None
    speedup: float | None = None
    gain: float | None = None
    interval: Interval | None = None
    measure: Measure = "wall time"
    met: HeadToHead | None = None
    chosen: bool = False


class Step(Frozen):
    """One line of the run's history. `speedup` is the best so far after this step, absent before the first pass.

    The steps of sweeper, tester and repairer repeat the move that they belong to. `variants` are what a sweep tried.
    A test's `head_to_head` is the one against the best kernel of that time, or an earlier one of the same
    `machine_code`, which was not judged again. `undecided`: the kernel is right and was not kept, and may be faster all
    the same. `busy`: while `candidate_speedup` was measured threads of others wanted the kernel's processors.
    """

    depth: int
    agent: Stepper
    move: SanitizedText = ""
    candidate: str | None = None
    parent: str | None = None
    status: Status | None = None
    message: SanitizedText = ""
    seconds: float = 0.0
    candidate_speedup: float | None = None
    busy: bool = False
    speedup: float | None = None
    improved: bool = False
    undecided: bool = False
    head_to_head: HeadToHead | None = None
    machine_code: str = ""
    usage: Usage = Usage()
    variants: tuple[Variant, ...] = ()


class Best(Frozen):
    """The fastest verified kernel so far. `instructions`: at the end of a run, what its machine code has and lacks."""

    candidate: Candidate
    verdict: Verdict
    profile: Profile | None = None
    instructions: str = ""

    @model_validator(mode="after")
    def _the_verdict_is_its_own(self) -> Self:
        if not self.verdict.passed or self.verdict.candidate != self.candidate.digest:
            raise ValueError("the best kernel is one that passed, by a verdict on itself")
        return self


class Stop(Frozen):
    """Why the run ended: a name to branch on, and a sentence for the user."""

    name: StopName
    message: SanitizedText


class Final(Frozen):
    """The kernels that were the best once, and those that nobody could tell from it, timed at the end of the run with
    eager in the same rounds. The last one is the kernel that was kept last.

    There are no `standings` where one kernel was kept, or where this was not done; `note` says why, and what came of it
    beside the times: which kernels were `withdrawn`, by their digests, and whether an earlier one is the result.
    """

    standings: tuple[Standing, ...] = ()
    withdrawn: tuple[str, ...] = ()
    note: SanitizedText = ""

    def timing(self, candidate: str | None) -> Timing | None:
        """The timing there of a kernel, by its digest; None of one that took no part."""
        return next((each.timing for each in self.standings if each.candidate == candidate), None)


class Result(Frozen):
    """What the run found. `best` is absent where no kernel passed; `improved`: its whole interval lies above 1."""

    best: Best | None
    improved: bool
    depth: int
    attempts: int
    usage: Usage
    seconds: float
    device_seconds: float
    stop: Stop
    final: Final = Final()


def append(left: tuple[Step, ...], right: tuple[Step, ...]) -> tuple[Step, ...]:
    """The reducer of the history."""
    return (*left, *right)


class TaskInput(BaseModel):
    """What a run starts from."""

    model_config = ConfigDict(extra="forbid", title="Task")

    source: str = Field(
        title="PyTorch source",
        description="A KernelBench-style Python file: class Model, get_inputs() and get_init_inputs().",
        json_schema_extra={"langgraph_nodes": ["intake"], "langgraph_type": "prompt"},
    )
    name: Label = Field(default="task", title="Name", description="What the report calls the task.")


class RunState(BaseModel):
    """The run. History, usage and the two clocks grow by what a node returns; every other field is replaced.

    `depth` counts optimizations that passed, `attempts` kernels tested, `repairs` those in a row of the present
    kernel; `gave_up` says that the repairer sees no further one.
    `final_repair` says that the run has come to its end, and that its final kernel is being repaired because a
    sanitizer found fault with it; `repairs` then counts those of the whole ending.
    `earlier` are the kernels that were the best before, the latest last: where a sanitizer finds fault with the final
    one, they are what is left. `undecided` are right, and may be faster than the best one of their time: the run's
    final timing decides on the latest of them.
    `sweep` names the values that the candidate's constants may take, until the sweeper has chosen among them.
    `profile` belongs to the kernel that the optimizer is about to improve, `critique` is a reviewer's word on the one
    that was judged last. `seconds` is the time spent in nodes,
    resumed runs included; `device_seconds` the part of it spent on running and profiling kernels.
    `settings` are those of the run, which a resumed one has, too.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str
    name: Label = "task"
    settings: Annotated[ThreadSettings | None, latest] = None
    task: Task | None = None
    target: TargetName | None = None
    tier: Tier | None = None
    candidate: Candidate | None = None
    move: str = ""
    sweep: Sweep | None = None
    verdict: Verdict | None = None
    best: Best | None = None
    earlier: tuple[Best, ...] = ()
    undecided: tuple[Best, ...] = ()
    depth: int = 0
    attempts: int = 0
    repairs: int = 0
    gave_up: bool = False
    final_repair: bool = False
    regenerations: int = 0
    diagnosis: Diagnosis | None = None
    profile: Profile | None = None
    critique: Critique | None = None
    history: Annotated[tuple[Step, ...], append] = ()
    usage: Annotated[Usage, add] = Usage()
    seconds: Annotated[float, add] = 0.0
    device_seconds: Annotated[float, add] = 0.0
    stop_reason: Stop | None = None
    result: Result | None = None

    @model_validator(mode="after")
    def _all_verdicts_are_on_its_task(self) -> Self:
        bests = (self.best, *self.earlier, *self.undecided, self.result.best if self.result else None)
        verdicts = (self.verdict, *(best.verdict for best in bests if best is not None))
        if any(verdict.task != self.task_digest for verdict in verdicts if verdict is not None):
            raise ValueError("a verdict in this state is one on another task")
        return self

    @property
    def task_digest(self) -> str:
        """Of the task that was described; empty before."""
        return self.task.digest if self.task else ""


def require(value: Value | None, field: str) -> Value:
    """The value of a field that an earlier node has written; its absence is an error in the wiring."""
    if value is None:
        raise RuntimeError(f'the state has no "{field}" yet: a node ran before the one that writes it')
    return value
