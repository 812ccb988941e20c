"""What a judge holds a kernel to, and how much it finds out."""

from __future__ import annotations

from dataclasses import dataclass

from harness.judging.device_lock import PLACES
from harness.machine.system import memory_bytes
from harness.nouns.devices import on_gpu
from harness.nouns.errors import MachineError
from harness.nouns.task import DESCRIBE_S, Task
from harness.nouns.tier import Tier
from harness.nouns.verdict import Precision
from harness.targets.target import Target
from harness.wire.layout import ORACLE_SETS, slot_bytes

TIMING_S = 1.0


@dataclass(frozen=True)
class Terms:
    """The terms that all verdicts of one judge share.

    `tolerance`: errors so many times what PyTorch's own allows are accepted. `timing_s`: the rounds of each workload
    end after about so long, converged or not, and those of its drop-in. `trials`: a pass is no more than so many
    comparisons, where kernels are only to be ranked; else all. `load_within_s`: how long a kernel's process may take
    to load it. `rotation_bytes`: calls take turns on so much memory; twice the last cache where times are to count, so
    that no call finds its arguments there. `describe_s`: the seconds in which a task must be described.
    """

    tier: Tier
    precision: Precision = "ieee"
    tolerance: float = 1.0
    timing_s: float = TIMING_S
    trials: int | None = None
    load_within_s: float = 60.0
    rotation_bytes: int | None = None
    describe_s: float = DESCRIBE_S

    def allowances(self, task: Task) -> frozenset[str]:
        """What the screen lets pass for the task's sake: types that its forward computes in, and the precision."""
        return frozenset({self.precision, *(dtype for work in task.workloads for dtype in work.dtypes)})


# -- Whether a task's arguments fit the device's memory: asked once it is described, before any kernel is written -----


MEMORY_BYTES = 16 << 30
"""One set of arguments on a processor is at most so large, however much memory there is."""
HOST_SETS = 2
"""The kernel's own set there, and what the reference computes meanwhile."""
_SMALL_BYTES = 1 << 30
"""Fits everywhere; the device is not asked."""


def require_room(task: Task, target: Target) -> None:
    """Raises `MachineError` where one set of a task's arguments is too large for the target's memory.

    The memory is the whole of it, not what is free now: what fits by this may still find the device taken.
    """
    needed = max(slot_bytes(work.signature) for work in (*task.workloads, *task.held_out))
    if needed <= _SMALL_BYTES:
        return
    allowed, where = _allowed(target)
    if allowed and needed > allowed:
        raise MachineError(
            f"{task.name} needs {_gib(needed)} for one set of its arguments; {where}, where the judge allows "
            f"{_gib(allowed)}.",
            "Choose smaller shapes (a suite's --scale makes them).",
        )


def shares(task: Task, target: Target) -> bool:
    """Whether the memory has room for as many such tasks as may share the target's device, each with half to spare."""
    needed = 2 * PLACES * max(slot_bytes(work.signature) for work in task.workloads)
    return needed <= _SMALL_BYTES or needed <= _allowed(target)[0]


def _allowed(target: Target) -> tuple[int, str]:
    """Bytes of one set, 0 where they are not known, and what limits them."""
    if on_gpu(target.name):
        held = target.facts().memory_bytes
        return held // (1 + ORACLE_SETS), f"the GPU has {_gib(held)}"
    held = memory_bytes()
    return min(MEMORY_BYTES, held // HOST_SETS), f"this machine has {_gib(held)}"


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"
