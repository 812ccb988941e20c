"""A profile as text for a prompt or a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from harness.nouns.profile import KernelProfile, Lines, Loop, Phase, Profile

MAX_LINES = 60
_WIDTH = 110
_KERNELS = 5
_FINDINGS_LINES = 20
"""So many lines are theirs, whatever the counters before them take: what limits a kernel must not be cut off."""
_INDENT = " " * 12
BUSY = 0.1
"""From this share on it is said that others held a kernel's threads up."""


def render(profile: Profile) -> str:
    """At most `MAX_LINES` lines: rates against peaks, each kernel's counters, then the findings, the sharpest first."""
    idle = profile.share_of_roof is not None
    lines = [
        f"device      {profile.device} ({profile.target})",
        f"time        {profile.time_ms:.4g} ms a call",
        _rate("memory", profile.achieved_gb_s, profile.peak_gb_s, "GB/s", shared=idle),
        _rate("products", profile.achieved_gflop_s, profile.peak_gflop_s, "GFLOP/s", shared=idle),
        f"bound       {profile.bound}, {profile.roof_said}",
        *say_phases(profile),
        *say_loops(profile),
    ]
    counters = [line for told in _counters(profile) for line in _wrapped(told)]
    rest = [*_left_out(profile.kernels[_KERNELS:]), *_findings(profile.findings)]
    room = MAX_LINES - len(lines) - min(len(rest), _FINDINGS_LINES)
    return "\n".join(_within(MAX_LINES, [*lines, *_within(room, counters), *rest]))


def say_phases(profile: Profile) -> list[str]:
    """How the call's time splits, a phase a line under a head line; or why nobody knows."""
    if profile.unsampled:
        return _wrapped(f"phases      not sampled: {profile.unsampled}")
    if not profile.phases:
        return []
    head = (
        f"phases      where the calling thread was met, {profile.ticks} times in calls with the same arguments "
        "(floats in [0, 1), integers 0):"
    )
    told = [say_phase(phase) for phase in profile.phases]
    if profile.held_up >= BUSY:
        told.append(
            f"meanwhile the machine was busy: for {profile.held_up:.0%} of the time one of its threads was held up by "
            "others, and waiting for it is no fault of the kernel"
        )
    return [*_wrapped(head), *(line for each in told for line in _wrapped(f"{_INDENT}{each}"))]


def say_loops(profile: Profile) -> list[str]:
    """The loops that most instructions of a call are in, one a line under a head line; or why nobody knows."""
    if profile.uncounted:
        return _wrapped(f"loops       not counted: {profile.uncounted}")
    if not profile.loops:
        return []
    head = (
        "loops       share of all instructions, turns a call on all threads x instructions a turn, inner loops apart:"
    )
    return [*_wrapped(head), *(line for loop in profile.loops for line in _wrapped(f"{_INDENT}{say_loop(loop)}"))]


def say_loop(loop: Loop) -> str:
    """One loop: its share of all instructions first."""
    kinds = {
        "vector arithmetic": loop.vector,
        "scalar floats": loop.scalar,
        "conversions": loop.conversions,
        "shuffles": loop.shuffles,
        "loads": loop.loads,
        "stores": loop.stores,
        "spilled": loop.spills,
        "variables on the stack": loop.own,
        "on the stack": loop.stack,
        "calls": loop.calls,
    }
    told = ", ".join(f"{count} {kind}" for kind, count in kinds.items() if count)
    called = f" (called in line {loop.caller})" if loop.caller else ""
    return f"{loop.share:.0%} line {loop.line}{called}: {loop.turns:,} x {loop.instructions}: {told or 'no data'}"


def say_phase(phase: Phase) -> str:
    """One phase, its share first."""
    called = f" (called in line {phase.caller})" if phase.caller else ""
    mostly = f", mostly at line {phase.line}" if phase.line not in (None, phase.loop) else ""
    if phase.elsewhere:
        where = f"in {phase.elsewhere}"
    elif phase.loop is None:
        where = f"at line {phase.line}, in no loop{called}"
    else:
        where = f"in the loop of line {phase.loop}{called}{_said_parts(phase.lines) or mostly}"
    return f"{phase.share:.0%} {where}"


def _said_parts(parts: Sequence[Lines]) -> str:
    said = (
        f"{part.share:.0%} at line{f's {part.first} to {part.last}' if part.last > part.first else f' {part.first}'}"
        for part in parts
    )
    return f": {', '.join(said)}" if parts else ""


def _within(most: int, lines: list[str]) -> list[str]:
    if len(lines) <= most:
        return lines
    return [*lines[: most - 1], f"({len(lines) - most + 1} more lines left out)"]


def _counters(profile: Profile) -> Iterator[str]:
    if profile.unprofiled:
        yield f"counters    not read: {profile.unprofiled}"
    for kernel in profile.kernels[:_KERNELS]:
        yield from _kernel(kernel)


def _left_out(kernels: Sequence[KernelProfile]) -> Iterator[str]:
    if kernels:
        yield f"kernel      {len(kernels)} more, {sum(kernel.share for kernel in kernels):.0%} of the time"


def _findings(findings: Sequence[str]) -> Iterator[str]:
    for number, finding in enumerate(findings, start=1):
        yield from textwrap.wrap(f"{number}. {finding}", _WIDTH, subsequent_indent="   ")


def _kernel(kernel: KernelProfile) -> Iterator[str]:
    times = f" in {kernel.launches} launches" if kernel.launches > 1 else ""
    yield (
        f"kernel      {kernel.name}: {kernel.time_ms:.4g} ms{times}, {kernel.share:.0%} of the time; "
        f"grid {_extent(kernel.grid)}, block {_extent(kernel.block)}, {kernel.waves:.2f} waves; "
        f"{kernel.registers} registers a thread, {kernel.shared_bytes} bytes of shared memory a block"
    )
    yield (
        f"{_INDENT}of peak: device memory {kernel.dram:.0%}, memory path {kernel.memory:.0%}, compute "
        f"{kernel.compute:.0%} (FMA {kernel.fma:.0%}, tensor cores {kernel.tensor:.0%}, issue slots {kernel.issue:.0%})"
    )
    limit = f", limited by {kernel.occupancy_limit}" if kernel.occupancy_limit else ""
    yield (
        f"{_INDENT}occupancy {kernel.occupancy:.0%} of {kernel.occupancy_possible:.0%} possible{limit}; hits: L1 "
        f"{kernel.l1_hits:.0%}, L2 {kernel.l2_hits:.0%}; {kernel.dram_bytes / 1e6:.4g} MB through device memory"
    )
    access = "; ".join(_access(kernel))
    if access:
        yield f"{_INDENT}{access}"
    if kernel.stalls:
        yield f"{_INDENT}warps: " + ", ".join(f"{stall.share:.0%} {stall.reason}" for stall in kernel.stalls)


def _access(kernel: KernelProfile) -> Iterator[str]:
    for what, efficiency, sectors in (
        ("loads", kernel.load_efficiency, kernel.load_sectors),
        ("stores", kernel.store_efficiency, kernel.store_sectors),
    ):
        if efficiency is not None and sectors is not None:
            yield f"global {what} use {efficiency:.0%} of each sector, {sectors:.1f} sectors a request"
    if kernel.bank_conflicts >= 0.01:
        yield f"bank conflicts cost {kernel.bank_conflicts:.0%} of shared memory's turns"
    if kernel.spills > 0:
        yield f"{kernel.spills:.1%} local-memory instructions"


def _wrapped(line: str) -> list[str]:
    return textwrap.wrap(line, _WIDTH + 10, subsequent_indent=_INDENT)


def _extent(extent: tuple[int, int, int]) -> str:
    used = [size for size in extent if size > 1] or [1]
    return " x ".join(map(str, used)) if extent[2] == 1 else " x ".join(map(str, extent))


def _rate(name: str, achieved: float, peak: float, unit: str, *, shared: bool) -> str:
    share = f" ({achieved / peak:.0%})" if peak > 0 and shared else ""
    return f"{name:<11} {achieved:.4g} of {peak:.4g} {unit}{share}"
