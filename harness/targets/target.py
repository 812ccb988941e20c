"""What the rest of the harness asks of a target."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from harness.isolation.policy import Needs
from harness.nouns.build import Build
from harness.nouns.candidate import Candidate, TargetName
from harness.nouns.device import DeviceName
from harness.nouns.device_facts import DeviceFacts
from harness.nouns.profile import Profile
from harness.nouns.sanitizer_run import SanitizerRun
from harness.nouns.task import Workload
from harness.nouns.tier import Tier
from harness.nouns.verdict import Timing


class Target(Protocol):
    """A place where kernels run. Implementations raise `MachineError` where the machine lacks what a call needs."""

    name: TargetName

    @property
    def device(self) -> DeviceName:
        """On what kernels run; without a UUID where none answers."""
        ...

    def preparations(self, tier: Tier) -> tuple[Callable[[], object], ...]:
        """What all builds need, and a machine makes once. What fails raises, and is the first build's to tell, too."""
        ...

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
