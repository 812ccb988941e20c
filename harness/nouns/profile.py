"""The curated summary an optimizer may read: at most 60 lines, never a raw dump."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from harness.nouns.candidate import TargetName
from harness.nouns.frozen import Frozen, SanitizedText

Bottleneck = Literal[
    "memory", "on_chip", "compute", "launch", "occupancy", "coalescing", "bank_conflicts", "spills", "latency"
]
"""What to work on first. "memory" is the device's, "on_chip" shared memory and caches; "launch": the time lies between
kernels rather than in them; "latency": no unit is busy, the threads wait for each other or for memory that is not
saturated."""


class Stall(Frozen):
    """Why warps did not issue; `share` of all the time that warps spent."""

    reason: str
    share: float


class Hint(Frozen):
    """A rule of the profiler's own that fired; `gain` is its estimate of the time saved, as a share."""

    message: str
    gain: float = 0.0


class KernelProfile(Frozen):
    """One kernel of a call, by the GPU's counters. Shares and hit rates lie in 0..1, where 1 is the unit's peak.

    `time_ms` adds up all `launches` of it in one call, and `share` is that part of all kernels' time. `load_efficiency`
    and `store_efficiency`: used bytes of each 32-byte sector moved; `bank_conflicts`: shared-memory turns that only
    conflicts cost; `spills`: instructions on local memory. `occupancy_limit` names the scarcest resource.
    """

    name: str
    launches: int
    time_ms: float
    share: float
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    registers: int
    shared_bytes: int
    waves: float
    compute: float
    memory: float
    dram: float
    dram_bytes: float
    fma: float
    tensor: float
    issue: float
    l1_hits: float
    l2_hits: float
    occupancy: float
    occupancy_possible: float
    occupancy_limit: str
    load_efficiency: float | None = None
    store_efficiency: float | None = None
    load_sectors: float | None = None
    store_sectors: float | None = None
    bank_conflicts: float = 0.0
    spills: float = 0.0
    stalls: tuple[Stall, ...] = ()
    hints: tuple[Hint, ...] = ()


class Lines(Frozen):
    """Lines of a kernel in a row, from `first` to `last`, with their share of all ticks."""

    first: int
    last: int
    share: float


class Phase(Frozen):
    """A part of a call on a processor, by where the calling thread was met: `share` of all ticks lies in 0..1.

    In a loop of the kernel `loop` is the line that it begins on, and its own is what no loop inside of it has; `line`
    is where most of it was met, in a loop or not; `caller` the line of the call that it was inlined into. `lines` are
    the parts of it that take the most, where there are several. `elsewhere` names what is not the kernel's own code.
    """

    share: float
    loop: int | None = None
    line: int | None = None
    caller: int | None = None
    lines: tuple[Lines, ...] = ()
    elsewhere: str = ""


class Loop(Frozen):
    """A loop of the machine code, by its line and the call that it was inlined into: what one turn does.

    `vector` and `scalar` are arithmetic, conversions apart; `spills` accesses of spilled registers, `own` of variables
    on the stack, `stack` of the function's frame where it cannot be told which of the two. `turns` of it
    one call makes, all threads together, `share` of all instructions counted are in them. Where ways part inside, a
    turn goes through some of the instructions only.
    """

    line: int
    caller: int | None = None
    instructions: int
    vector: int = 0
    scalar: int = 0
    loads: int = 0
    stores: int = 0
    stack: int = 0
    spills: int = 0
    own: int = 0
    shuffles: int = 0
    conversions: int = 0
    calls: int = 0
    turns: int = 0
    share: float = 0.0


class Profile(Frozen):
    """One kernel's distance to what the machine can do. Rates are 1e9 per second; shares lie in 0..1.

    `findings` are sentences on the bottleneck, the most limiting first. `kernels` are there where a GPU's counters were
    read, the slowest first; where they should have been and could not, `unprofiled` says why and what to do. `phases`
    are there where a processor's calls were sampled, the longest first, with the number of `ticks`; where they could
    not be, `unsampled` says why. `loops` are those that most instructions are in, the largest share first; or
    `uncounted` says why there are none. `held_up`: the share of the sampled time in which other processes kept one of
    the kernel's threads from running. `share_of_roof` is absent where the time was measured on a busy machine.
    """

    target: TargetName
    device: str
    time_ms: float = Field(gt=0)
    achieved_gb_s: float
    peak_gb_s: float
    achieved_gflop_s: float
    peak_gflop_s: float
    bound: Literal["memory", "compute"]
    share_of_roof: float | None = None
    findings: tuple[str, ...] = ()
    bottleneck: Bottleneck | None = None
    kernels: tuple[KernelProfile, ...] = ()
    unprofiled: str = ""
    phases: tuple[Phase, ...] = ()
    ticks: int = 0
    held_up: float = 0.0
    unsampled: SanitizedText = ""
    loops: tuple[Loop, ...] = ()
    uncounted: SanitizedText = ""

    @property
    def roof_said(self) -> str:
        """How much of the roof the kernel reaches, as part of a sentence."""
        if self.share_of_roof is None:
            return "at a share of the roof that a busy machine does not tell"
        return f"at {self.share_of_roof:.0%} of the roof"
