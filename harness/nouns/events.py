"""What happens while a task is worked on, as it happens: for whoever waits. No verdict hangs on any of it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from harness.nouns.candidate import TargetName
from harness.nouns.frozen import Frozen, printable
from harness.nouns.verdict import Interval, Status, Verdict

_MOST_CHARS = 300


def _short(text: str) -> str:
    return " ".join(printable(text).split())[:_MOST_CHARS]


Said = Annotated[str, AfterValidator(_short)]
"""A few words on one line, whoever chose them."""


class Event(Frozen):
    """One thing that happened; `kind` names it."""

    kind: str

    @property
    def words(self) -> str:
        """It, in words, for a line that shows what is being done."""
        return ""


class Describing(Event):
    """A task's reference is run and traced; `doing` says how far that is."""

    kind: Literal["describing"] = "describing"
    name: Said
    doing: Said = ""

    @property
    def words(self) -> str:
        return self.doing or "tracing the reference"


class BuildStarted(Event):
    """A kernel is compiled, or looked up in the store."""

    kind: Literal["build_started"] = "build_started"
    candidate: str
    target: TargetName

    @property
    def words(self) -> str:
        return "compiling"


class BuildEnded(Event):
    """It is compiled; `known`: it had been before."""

    kind: Literal["build_ended"] = "build_ended"
    candidate: str
    succeeded: bool
    known: bool
    seconds: float

    @property
    def words(self) -> str:
        return "compiled" if self.succeeded else "it does not compile"


class DeviceAwaited(Event):
    """Another one has the device; `device_taken` follows."""

    kind: Literal["device_awaited"] = "device_awaited"
    target: TargetName

    @property
    def words(self) -> str:
        return "waiting for the device"


class DeviceTaken(Event):
    """The wait for the device is over, after so many seconds."""

    kind: Literal["device_taken"] = "device_taken"
    target: TargetName
    seconds: float

    @property
    def words(self) -> str:
        return "running on the device"


class Checking(Event):
    """A kernel's outputs are compared with the reference's; `trials` were made before this one."""

    kind: Literal["checking"] = "checking"
    distribution: Said
    trials: Annotated[int, Field(ge=0)]

    @property
    def words(self) -> str:
        return f"comparing, trial {self.trials + 1}: {self.distribution}"


class Timing(Event):
    """Rounds of the clock so far. `speedup` is over eager or, with `incumbent`, over an earlier kernel.

    `at` says which of several workloads or batches it is. `busy`: threads of others want the kernel's processors.
    """

    kind: Literal["timing"] = "timing"
    rounds: Annotated[int, Field(ge=0)]
    speedup: float
    interval: Interval
    incumbent: bool = False
    at: Said = ""
    busy: bool = False

    @property
    def words(self) -> str:
        over = "the best" if self.incumbent else "eager"
        what = f"timing {self.at}".rstrip()
        spread = f" ({self.interval.said(between='-')})" if self.rounds > 1 else ""
        busy = ", busy machine" if self.busy else ""
        return f"{what}, {self.rounds} rounds: {self.speedup:.2f}x over {over}{spread}{busy}"


class Profiling(Event):
    """A kernel runs under the profiler."""

    kind: Literal["profiling"] = "profiling"
    candidate: str

    @property
    def words(self) -> str:
        return "profiling"


class Sanitizing(Event):
    """A kernel runs under the sanitizers."""

    kind: Literal["sanitizing"] = "sanitizing"
    candidate: str

    @property
    def words(self) -> str:
        return "watching every access"


class WholeModel(Event):
    """Something is done with a whole model: it is run, compiled, or held against eager."""

    kind: Literal["whole_model"] = "whole_model"
    doing: Said

    @property
    def words(self) -> str:
        return self.doing


class Judged(Event):
    """The judge's word on a kernel. `check` names what failed; the interval is there where it was timed."""

    kind: Literal["verdict"] = "verdict"
    candidate: str
    status: Status
    check: Said = ""
    message: Said = ""
    speedup: float | None = None
    interval: Interval | None = None

    @classmethod
    def of(cls, verdict: Verdict) -> Judged:
        """A verdict in short."""
        timing = verdict.timing
        return cls(
            candidate=verdict.candidate,
            status=verdict.status,
            check=verdict.check,
            message=verdict.message,
            speedup=timing.speedup if timing else None,
            interval=timing.speedup_interval if timing else None,
        )

    @property
    def words(self) -> str:
        return self.status if self.speedup is None else f"{self.status}, {self.speedup:.2f}x over eager"


JudgesEvent = (
    Describing
    | BuildStarted
    | BuildEnded
    | DeviceAwaited
    | DeviceTaken
    | Checking
    | Timing
    | Profiling
    | Sanitizing
    | WholeModel
    | Judged
)
"""What a judge tells of."""
