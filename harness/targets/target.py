"""What the rest of the harness asks of a target."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from harness.build import Build
from harness.candidate import Candidate, TargetName
from harness.frozen import Frozen
from harness.isolation.policy import Access
from harness.profile.summary import Profile
from harness.sanitize.report import SanitizerRun
from harness.task import Workload
from harness.verdict import Tier, Timing


class DeviceFacts(Frozen):
    """The device's ceilings. Rates are 1e9 per second in float32; `source` says where they come from ("measured ...").

    `simd_floats` is the number of floats in one vector register (1 on a GPU, where the warp is the vector).
    A GPU also has an `architecture` (nvcc's name, "sm_90a"), `multiprocessors`, and `shared_bytes`: the shared memory
    that one block may ask for, `memory_bytes` of its own, and the dense rates of its tensor cores in TF32 and in
    float16 or bfloat16. Its `l3_bytes` are those of its last cache, the L2.
    """

    device: str
    threads: int
    simd_floats: int
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int
    peak_gb_s: float
    peak_gflop_s: float
    source: str
    architecture: str = ""
    multiprocessors: int = 0
    shared_bytes: int = 0
    memory_bytes: int = 0
    tf32_gflop_s: float = 0.0
    half_gflop_s: float = 0.0


@dataclass(frozen=True)
class Needs:
    """What a process that runs kernels must reach and find set, beside what every isolated process has."""

    access: Access = field(default_factory=Access)
    environment: dict[str, str] = field(default_factory=dict)


class Target(Protocol):
    """A place where kernels run. Implementations raise `MachineError` where the machine lacks what a call needs."""

    name: TargetName

    def compile(self, candidate: Candidate, *, tier: Tier) -> Build:
        """Compile in isolation, or take the library from the cache."""
        ...

    def require_device(self) -> None:
        """Raise `MachineError`, naming the remedy, where kernels of this target cannot run here."""
        ...

    def running(self) -> Needs:
        """What the judging process and the kernel's own process need; not for compiling."""
        ...

    def facts(self, *, again: bool = False) -> DeviceFacts:
        """The device's ceilings; measured on first use, then cached on disk. With `again` measured once more."""
        ...

    def profile(self, workload: Workload, timing: Timing, build: Build, *, tier: Tier) -> Profile:
        """What limits the kernel that `timing` belongs to; where counters should be read, it runs once more."""
        ...

    def compile_watched(self, candidate: Candidate, *, tier: Tier) -> Build:
        """Compile for `sanitize`: so that a sanitizer sees every access and can name its line."""
        ...

    def ends_soon(self, workload: Workload) -> bool:
        """Whether sanitizers are likely to end within seconds at a workload's own sizes."""
        ...

    def sanitize(
        self, build: Build, workload: Workload, values: Path, *, tier: Tier, limit_s: float | None = None
    ) -> tuple[SanitizerRun, ...]:
        """What each of the target's sanitizers says of a library that `compile_watched` made, called with `values`
        (a folder that `draw_arguments` filled). `limit_s` is a tool's, by default its own."""
        ...
