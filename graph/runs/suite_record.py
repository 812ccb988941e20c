"""What a suite found: one row a task, and the figures over all of them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator

from graph.runs.machine import Machine
from graph.runs.record import RunRecord
from harness.judging.roofline_bound import floor_ms
from harness.nouns.device_facts import DeviceFacts
from harness.nouns.frozen import Frozen, Label, SanitizedText
from harness.nouns.task import OpClass, Task, TensorSpec
from harness.nouns.verdict import Timing
from nodes.state import Usage

RowStatus = Literal[
    "improved", "nothing_faster", "no_kernel", "degenerate", "not_a_task", "machine_failed", "defect", "interrupted",
    "waiting",
]  # fmt: skip
UNDER_WAY: frozenset[RowStatus] = frozenset({"interrupted", "waiting"})
FAST = (1.0, 1.2, 2.0)


def _one_folder(name: str) -> str:
    if name in ("", ".", "..") or {"/", "\0"} & set(name):
        raise ValueError("a task's name is a folder within the suite's")
    return name


class SuiteTask(Frozen):
    """One task of a suite: its id, the name of its run, and the file's text, sizes already scaled.

    Where it is one workload of a file, `whole` is the file's name.
    """

    id: int
    name: Annotated[Label, AfterValidator(_one_folder)]
    source: str
    whole: Label = ""


class Row(Frozen):
    """One task. `timing` is its best verified kernel's, absent where none passed; `reason` why its run ended.

    `beside_compiled` is the same kernel's in a later judgement that also timed torch.compile, where that was asked.

    `floor_ms` is the least time that the task's bytes and FLOPs need on the device; `depth` counts the optimizations
    that passed. On a `degenerate` task nothing wins (see `cutegen check-task`). `interrupted` and `waiting` are not
    the end: a resumed suite goes on with them. `whole` is the file that the task is one workload of.
    """

    id: int
    name: str
    whole: str = ""
    status: RowStatus
    op_class: OpClass | None = None
    shapes: str = ""
    timing: Timing | None = None
    beside_compiled: Timing | None = None
    floor_ms: float | None = None
    move: SanitizedText = ""
    depth: int = 0
    kernels_judged: int = 0
    seconds: float = 0.0
    usage: Usage = Usage()
    reason: SanitizedText = ""

    @property
    def ended(self) -> bool:
        """Whether there is nothing left to do."""
        return self.status not in UNDER_WAY

    @property
    def dollars(self) -> float | None:
        """What its models cost; absent where the price of a call is unknown."""
        return None if self.usage.unpriced_calls else self.usage.dollars

    @property
    def tenths(self) -> float:
        """How many tenths of the baseline's speed its kernel gained: 12 for 2.2x, none where it does not win."""
        return (self.timing.headline.speedup - 1) * 10 if self.timing and self.timing.wins else 0.0

    @property
    def floor_share(self) -> float | None:
        """The floor over the kernel's time: 1 is as fast as the device allows. Absent of a time under load."""
        if not self.floor_ms or self.timing is None or self.timing.under_load:
            return None
        return self.floor_ms / self.timing.candidate_ms

    @property
    def floor_said(self) -> str:
        """The same in words: "busy" of a time under load, empty where there is no floor or no time."""
        if self.floor_share is not None:
            return f"{self.floor_share:.0%}"
        return "busy" if self.floor_ms and self.timing else ""


class Figures(Frozen):
    """Speed-ups over eager in sum. `geomean` and `median` are of the `right` kernels; `fast` counts failures as slow.

    `fast["1.2"]` is the share of all tasks whose kernel is right and more than 1.2 times as fast. `dollars` are those
    of all rows together, failed ones included, absent where a price is unknown: `per_kernel` for each right kernel,
    `per_tenth` for each 0.1x of speed-up that was gained.
    """

    tasks: int
    right: int
    faster: int
    geomean: float | None
    median: float | None
    fast: dict[str, float]
    dollars: float | None = None
    per_kernel: float | None = None
    per_tenth: float | None = None


class SuiteRecord(Frozen):
    """A suite's results. `seconds` are wall time, resumed parts included; `facts` the device's measured ceilings."""

    schema_version: Literal[1] = 1
    id: str
    name: str
    outcome: Literal["finished", "interrupted", "running"]
    created: datetime
    scale: float
    jobs: int
    seconds: float
    settings: dict[str, Any]
    machine: Machine
    facts: DeviceFacts
    rows: tuple[Row, ...]

    @property
    def figures(self) -> Figures:
        """Over all tasks."""
        return figures(self.rows)


def waiting(task: SuiteTask) -> Row:
    """The row of a task that has not begun."""
    return Row(id=task.id, name=task.name, whole=task.whole, status="waiting")


def row_of(task: SuiteTask, record: RunRecord, facts: DeviceFacts, beside_compiled: Timing | None = None) -> Row:
    """The row of a task whose run has ended or was interrupted."""
    timing = record.timing
    best = record.best.candidate.digest if record.best else None
    judged = [step for step in record.steps if step.agent == "tester"]
    return Row(
        id=task.id,
        name=task.name,
        whole=task.whole,
        status=_status(record),
        op_class=record.task.op_class if record.task else None,
        shapes=shapes_of(record.task),
        timing=timing,
        beside_compiled=beside_compiled,
        floor_ms=floor_ms(record.task, facts, record.best.verdict) if record.task and record.best else None,
        move=next((step.move for step in judged if step.candidate == best), ""),
        depth=max((step.depth for step in judged), default=0),
        kernels_judged=len(record.verdicts),
        seconds=record.seconds,
        usage=record.usage,
        reason=_reason(record),
    )


def _reason(record: RunRecord) -> str:
    """Why a run ended; without a kernel, with what the last verdict said of the last one."""
    said = [step for step in record.steps if step.agent == "tester" and step.message]
    if record.best or not said:
        return record.stop_reason
    return f"{record.stop_reason} The last verdict was {said[-1].status}: {said[-1].message}"


def _status(record: RunRecord) -> RowStatus:
    timing = record.timing
    if record.outcome not in ("improved", "nothing_faster"):
        return "interrupted"
    if timing is None:
        return "no_kernel"
    if timing.task_defect:
        return "degenerate"
    return "improved" if timing.wins else "nothing_faster"


def shapes_of(task: Task | None) -> str:
    """The inputs' shapes, as 64x32, 32."""
    tensors = (spec for spec in (task.signature.inputs if task else ()) if isinstance(spec, TensorSpec))
    return ", ".join("x".join(map(str, spec.shape)) for spec in tensors)


def figures(rows: Sequence[Row]) -> Figures:
    """Sum up rows. Those without a kernel, not ended or degenerate count as failures."""
    timings = [row.timing for row in rows if row.timing is not None and not row.timing.task_defect]
    speedups = [timing.headline.speedup for timing in timings]
    dollars = summed([row.dollars for row in rows])
    return Figures(
        tasks=len(rows),
        right=len(speedups),
        faster=sum(timing.wins for timing in timings),
        geomean=math.exp(statistics.fmean(map(math.log, speedups))) if speedups else None,
        median=statistics.median(speedups) if speedups else None,
        fast={f"{p:g}": sum(speedup > p for speedup in speedups) / max(1, len(rows)) for p in FAST},
        dollars=dollars,
        per_kernel=ratio(dollars, len(speedups)),
        per_tenth=ratio(dollars, sum(row.tenths for row in rows)),
    )


def summed(dollars: Sequence[float | None]) -> float | None:
    """The sum; absent where one of them is."""
    known = [each for each in dollars if each is not None]
    return sum(known) if len(known) == len(dollars) else None


def ratio(dollars: float | None, parts: float) -> float | None:
    """Dollars a part; absent where either is."""
    return dollars / parts if dollars is not None and parts > 0 else None
