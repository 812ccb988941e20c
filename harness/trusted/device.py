"""What judging needs of a device: memory that two processes share, what disturbs a clock there, when work is done."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import torch

from harness.nouns.candidate import TargetName
from harness.nouns.verdict import Conditions, Precision


@dataclass(frozen=True)
class Segment:
    """Memory that the runner gets by its descriptor, and our own view of all its bytes."""

    descriptor: int
    raw: torch.Tensor  # uint8, (bytes,)


class Device(Protocol):
    """One kind of device, in the judging child. The runner has its own side of it: `harness/candidate/runner.py`."""

    kind: TargetName
    place: torch.device
    burst_s: float
    """A burst of calls lasts at least this long, so that the message to the runner is noise."""
    settle_s: float
    """Before a burst: what the side before has left running (OpenMP threads that spin) must have ended."""
    pings: int
    """Orders of nothing before one that is clocked: a process that has just been let run is slow at first, by a tenth
    of a millisecond or more. None where the kernel runs on the same cores."""
    messages: int
    """Orders that show what a message costs."""
    known_work: int
    """Pieces of known work in each of them."""
    usual_cost: float
    """The share of messages that cost less than what counts as a message's cost."""
    warm_s: float
    """The clocks of the device need this much work before they are where they will stay."""
    seals: bool
    """Whether nobody but the judge can make shared inputs writable again. Where not, their checksums are compared."""
    queues: bool
    """Whether a call may return before its work is done, so that what is filled is still being filled."""
    keeps_results: bool
    """Whether eager's results stay alive until the next use of their slot, so that it writes where the candidate does:
    into memory that no cache holds. A processor's allocator takes pages from the system for that, at a price."""

    verified_slots: int
    """Of the timed slots so many are compared with the reference: all where that is cheap, else so many drawn at
    random. A kernel that leaves out one call in twenty gains 5 %, and gets past 32 of 256 slots one time in five."""

    def prepare(self, precision: Precision) -> None:
        """Settings of this process, before it touches a tensor. Raises `MachineError` where the device is not there."""
        ...

    def slots(self, wanted: int, each: int, allowed: int) -> int:
        """How many sets of arguments of `each` bytes to make, 1 to `wanted`, within `allowed` bytes of its memory.

        A GPU takes 0 for all that is free.

        Raises `MachineError` where the device has no room for the task.
        """
        ...

    def segment(self, name: str, size: int, *, sealed: bool) -> Segment:
        """Memory of at least `size` bytes. Sealed: the runner can only read it."""
        ...

    def before_timing(self) -> None:
        """The checks are over: from here on eager's memory must be like the candidate's."""
        ...

    def team_in_place(self) -> AbstractContextManager[None]:
        """Inside, OpenMP's threads of this process run where a kernel's do: see `Team`."""
        ...

    def empty_caches(self) -> None:
        """Read memory until nothing else is cached. Reading leaves clean lines: nobody has to write them back."""
        ...

    def conditions(self) -> Conditions | None:
        """Clocks and temperature right now, where the device tells."""
        ...

    def finish(self) -> None:
        """Wait until all that this process has asked of the device is done."""
        ...
