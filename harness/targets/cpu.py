"""The target that is always there: this machine's processor."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from harness.building.compilation import compile_candidate
from harness.building.cpu_build import CpuToolchain, precompiled_prelude
from harness.building.sanitized_build import SanitizedCpuToolchain
from harness.building.toolchain import host_compiler
from harness.isolation.policy import Needs
from harness.machine.processor import machine_id
from harness.nouns.build import Build
from harness.nouns.candidate import Candidate, TargetName
from harness.nouns.device import DeviceName
from harness.nouns.device_facts import DeviceFacts
from harness.nouns.profile import Profile
from harness.nouns.sanitizer_run import SanitizerRun
from harness.nouns.task import Workload
from harness.nouns.tier import Tier
from harness.nouns.verdict import Timing
from harness.profile.phases import with_phases
from harness.profile.roofline import roofline
from harness.profile.turns import counted_build, with_turns
from harness.sanitize import host
from harness.targets.ceilings import cpu_facts


class CpuTarget:
    """g++ with OpenMP, the wall clock, a roofline. Holds no state: threads may share it."""

    name: TargetName = "cpu"

    @property
    def device(self) -> DeviceName:
        """All of the machine's processors are one device."""
        return DeviceName(target="cpu", uuid=machine_id())

    def preparations(self, tier: Tier) -> tuple[Callable[[], object], ...]:
        """The precompiled headers: of the kernel as it is judged, and as sanitizers watch it."""
        return tuple(partial(precompiled_prelude, each, tier) for each in (CpuToolchain(), SanitizedCpuToolchain()))

    def compile(self, candidate: Candidate, *, tier: Tier) -> Build:
        """Compile in isolation, or take the library from the cache."""
        return compile_candidate(candidate, CpuToolchain(), tier=tier)

    def require_device(self) -> None:
        """Raise `MachineError` where there is no compiler: the processor itself is always there."""
        host_compiler()

    def running(self) -> Needs:
        """Nothing that an isolated process does not have."""
        return Needs()

    def facts(self, *, again: bool = False) -> DeviceFacts:
        """Cache sizes and threads as the system tells them, bandwidth and multiply-add rate as measured once."""
        return cpu_facts(again=again)

    def profile(self, workload: Workload, timing: Timing, build: Build, *, tier: Tier) -> Profile:
        """Where the kernel stands under this machine's roofline, how its time splits over its loops, and how many
        instructions are in which."""
        base = roofline(workload, timing, build, self.facts(), target=self.name)
        sampled = with_phases(base, build, workload.signature, tier=tier)
        return with_turns(sampled, counted_build(build, tier=tier), workload.signature, tier=tier)

    def compile_watched(self, candidate: Candidate, *, tier: Tier) -> Build:
        """With AddressSanitizer and UndefinedBehaviorSanitizer compiled in."""
        return compile_candidate(candidate, SanitizedCpuToolchain(), tier=tier)

    def ends_soon(self, workload: Workload) -> bool:
        """A second is usual at any size that a processor computes; where it is not, the limit tells."""
        return True

    def sanitize(
        self, build: Build, workload: Workload, values: Path, *, tier: Tier, limit_s: float | None = None
    ) -> tuple[SanitizerRun, ...]:
        """What those two say of one call."""
        limit = limit_s or host.LIMIT_S
        return (host.sanitize_on_host(build, workload.signature, tier=tier, values=values, limit_s=limit),)
