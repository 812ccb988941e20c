"""What the server's tools answer: short, typed, with everything of size left behind under its digest."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from harness.nouns.frozen import Frozen, SanitizedText
from harness.nouns.verdict import Measure, Outcome, Status

TaskDigest = Annotated[str, Field(description="the task's digest: other tools take it")]
KernelDigest = Annotated[str, Field(description="the kernel's digest: other tools take it instead of its source")]
Words = Annotated[SanitizedText, Field(description="the same in words, with what a repair can start from")]


class TaskCard(Frozen):
    """A task, and what a kernel for it is held to."""

    task: TaskDigest
    name: str
    target: str
    op_class: str
    arguments: str = Field(description="the entry point's, in the order of the call, for every workload")
    operations: SanitizedText = Field(description="as traced; empty where the forward could not be")
    flops: int | None = Field(
        description="of the first workload's products and convolutions; null without any: other arithmetic is not "
        "counted, and the bytes are what bounds it"
    )
    bytes_moved: int = Field(description="inputs, parameters and outputs of the first workload, each once")
    machine: str = Field(description="its measured rates, and which of them bounds the task")
    compared_on: str = Field(description="what a kernel is compared on, and who calls it")
    exactness: str
    special_values: str


class Compiled(Frozen):
    """What the compiler said of a kernel."""

    kernel: KernelDigest
    succeeded: bool
    words: Words


class Meeting(Frozen):
    """A kernel beside another one in the same rounds: how many times as fast, with the 99.5 % interval."""

    against: KernelDigest
    speedup: float
    low: float | None = Field(description="null, as is high, after too few rounds to tell")
    high: float | None
    rounds: int = Field(description="0: both are the same machine code, and nothing was run")
    measure: Measure = Field(description="what decided: wall time, or CPU time on one thread beside busy neighbours")
    alone: str = Field(default="", description="why CPU time could not decide what wall time did not")
    outcome: Outcome


class Judged(Frozen):
    """A verdict. Speed-ups are over eager PyTorch, with a 95 % interval; absent unless the status is passed, the
    interval after too few rounds as well."""

    kernel: KernelDigest
    status: Status
    check: str = Field(default="", description="which check failed")
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    kernel_ms: float | None = None
    baseline_ms: float | None = None
    floor_ms: float | None = Field(default=None, description="the least time that the task's bytes and FLOPs take here")
    meeting: Meeting | None = Field(default=None, description="with the kernel it was to beat")
    is_best: bool = Field(description="whether it is the task's best kernel now")
    earlier: str | None = Field(
        default=None, description="the kernel of the same machine code whose verdict this is: nothing was run again"
    )
    words: Words


class Profiled(Frozen):
    """What limits a kernel that passed."""

    kernel: KernelDigest
    time_ms: float
    bound: str
    share_of_roof: float | None = Field(description="absent where a busy machine does not tell")
    words: Words


class Watched(Frozen):
    """What sanitizers saw of every access of a kernel."""

    kernel: KernelDigest
    clean: bool = Field(description="some tool watched it, and none found anything")
    words: Words


class Tried(Frozen):
    """A kernel that was judged."""

    kernel: KernelDigest
    status: Status
    speedup: float | None = None
    note: str = ""


class Standing(Frozen):
    """The task's best kernel, and all that were judged for it, the oldest first."""

    task: TaskDigest
    name: str
    best: str | None = None
    tried: tuple[Tried, ...] = ()


class KernelText(Frozen):
    """A kernel as it was handed in."""

    kernel: KernelDigest
    source: str


class Exported(Frozen):
    """Where the drop-in lies: `ModelNew` of `model_new.py` has the reference's constructor, forward and state_dict."""

    kernel: KernelDigest
    folder: str
    files: tuple[str, ...]


class Guides(Frozen):
    """Sections of the guides."""

    words: Words
