"""From the profiler's numbers to a kernel's profile: shares, stalls, what limits it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from harness.nouns.profile import Bottleneck, Hint, KernelProfile, Stall
from harness.profile import nsight as names
from harness.profile.nsight import Launch

MAX_STALLS = 4
MAX_HINTS = 3
_BUSY = 0.6
"""A unit that works this share of its peak is what limits: the rest is start, end and unevenness."""
_BUSY_TENSOR = 0.5
"""From sm_90 on the older matrix instructions keep the tensor cores busy two thirds of the time at most."""
_WASTEFUL = 0.5
_CONFLICTING = 0.25
_SPILLING = 0.05
_SENTENCE = re.compile(r"(?<=[a-z)%])\.\s*(?=[A-Z]|$)")
_MAX_HINT_CHARS = 320
_MAX_NAME_CHARS = 100
_NAMELESS = re.compile(r"(?:\(anonymous namespace\)|<unnamed>)::")


def kernel_profiles(launches: Sequence[Launch]) -> tuple[KernelProfile, ...]:
    """One profile for each kernel and shape of launch, the slowest first; repeated launches are added up."""
    groups: dict[tuple[object, ...], list[Launch]] = {}
    for launch in launches:
        groups.setdefault((launch.name, launch.grid, launch.block), []).append(launch)
    total = sum(_time_ms(launch) for launch in launches) or 1.0
    profiles = (_kernel(group, total) for group in groups.values())
    return tuple(sorted(profiles, key=lambda kernel: -kernel.time_ms))


def bottleneck(kernels: Sequence[KernelProfile], call_ms: float, multiprocessors: int) -> Bottleneck:
    """What limits a call of `call_ms`, judged by its slowest kernel."""
    slowest = kernels[0]
    blocks = slowest.grid[0] * slowest.grid[1] * slowest.grid[2]
    efficiencies = [each for each in (slowest.load_efficiency, slowest.store_efficiency) if each is not None]
    reasons: tuple[tuple[Bottleneck, bool], ...] = (
        ("launch", sum(kernel.time_ms for kernel in kernels) < 0.5 * call_ms),
        ("spills", slowest.spills > _SPILLING),
        ("occupancy", blocks < multiprocessors),
        ("compute", slowest.fma >= _BUSY or slowest.tensor >= _BUSY_TENSOR),
        ("memory", slowest.dram >= _BUSY),
        ("coalescing", min(efficiencies, default=1.0) <= _WASTEFUL),
        ("bank_conflicts", slowest.bank_conflicts > _CONFLICTING),
        ("on_chip", slowest.memory >= max(_BUSY, slowest.compute)),
        ("compute", slowest.compute >= _BUSY),
        ("occupancy", 0 < slowest.occupancy_possible < _WASTEFUL),  # 0 is not told: no launch has none
    )
    return next((name for name, holds in reasons if holds), "latency")


def _kernel(group: Sequence[Launch], total_ms: float) -> KernelProfile:
    first = group[0]
    metrics = first.metrics
    time_ms = sum(_time_ms(launch) for launch in group)
    wavefronts = _sum(metrics, names.WAVEFRONTS)
    instructions = metrics.get(names.INSTRUCTIONS, 0.0)
    return KernelProfile(
        name=short_name(first.name)[:_MAX_NAME_CHARS],
        launches=len(group),
        time_ms=time_ms,
        share=time_ms / total_ms,
        grid=first.grid,
        block=first.block,
        registers=round(metrics.get(names.REGISTERS, 0)),
        shared_bytes=round(_sum(metrics, (names.SHARED_STATIC, names.SHARED_DYNAMIC))),
        waves=metrics.get(names.WAVES, 0.0),
        compute=_share(metrics, names.COMPUTE),
        memory=_share(metrics, names.MEMORY),
        dram=_share(metrics, names.DRAM),
        dram_bytes=_sum(metrics, (names.DRAM_READ, names.DRAM_WRITTEN)),
        fma=_share(metrics, names.FMA),
        tensor=_share(metrics, names.TENSOR),
        issue=_share(metrics, names.ISSUE),
        l1_hits=_share(metrics, names.L1_HITS),
        l2_hits=_share(metrics, names.L2_HITS),
        occupancy=_share(metrics, names.OCCUPANCY),
        occupancy_possible=_share(metrics, names.OCCUPANCY_POSSIBLE),
        occupancy_limit=_limit(metrics),
        load_efficiency=_known_share(metrics, names.LOAD_EFFICIENCY, where=names.LOAD_SECTORS),
        store_efficiency=_known_share(metrics, names.STORE_EFFICIENCY, where=names.STORE_SECTORS),
        load_sectors=metrics.get(names.LOAD_SECTORS) or None,
        store_sectors=metrics.get(names.STORE_SECTORS) or None,
        bank_conflicts=_sum(metrics, names.CONFLICTS) / wavefronts if wavefronts else 0.0,
        spills=_sum(metrics, names.SPILLS) / instructions if instructions else 0.0,
        stalls=_stalls(metrics),
        hints=_hints(first.hints, MAX_HINTS if time_ms > total_ms / 2 else 1),
    )


def _time_ms(launch: Launch) -> float:
    return launch.metrics.get(names.DURATION, 0.0) * 1e-6


def _share(metrics: Mapping[str, float], key: str) -> float:
    return metrics.get(key, 0.0) / 100


def _known_share(metrics: Mapping[str, float], key: str, *, where: str) -> float | None:
    """The share, where `where` says that there was something to share. It is 0 for asynchronous copies: not counted."""
    return min(1.0, metrics[key] / 100) if metrics.get(key) and metrics.get(where) else None


def _sum(metrics: Mapping[str, float], keys: Sequence[str]) -> float:
    return sum(metrics.get(key, 0.0) for key in keys)


def _limit(metrics: Mapping[str, float]) -> str:
    limits = {what: metrics[key] for key, what in names.LIMITS.items() if key in metrics}
    return min(limits, key=lambda what: limits[what], default="")


def _stalls(metrics: Mapping[str, float]) -> tuple[Stall, ...]:
    found = {
        name: metrics[key]
        for name in names.STALLS
        if (key := f"{names.STALL_PREFIX}{name}{names.STALL_SUFFIX}") in metrics
    }
    total = sum(found.values()) or 1.0
    shares = [Stall(reason=names.STALLS[name], share=found[name] / total) for name in names.WAITING if name in found]
    return tuple(
        sorted((stall for stall in shares if stall.share >= 0.05), key=lambda stall: -stall.share)[:MAX_STALLS]
    )


def _hints(hints: Sequence[Hint], most: int) -> tuple[Hint, ...]:
    kept = [Hint(message=_plain(hint.message), gain=hint.gain) for hint in hints if hint.gain >= 0.02]
    return tuple(sorted(kept, key=lambda hint: -hint.gain)[:most])


def _plain(message: str) -> str:
    """The sentences without links, as many as fit."""
    kept = ""
    for sentence in _SENTENCE.split(" ".join(message.split())):
        if sentence and "http" not in sentence and len(kept) + len(sentence) <= _MAX_HINT_CHARS:
            kept += f"{sentence}. "
    return kept.strip() or message[:_MAX_HINT_CHARS]


def short_name(text: str) -> str:
    """A kernel's name without its return type, arguments and template arguments: `void a::b<3>(int)` gives `a::b`."""
    depth, name = 0, ""
    for letter in _NAMELESS.sub("", text.removeprefix("void ")):
        if letter == "(" and depth == 0 and name:
            break
        depth += (letter == "<") - (letter == ">")
        if depth == 0 and letter != ">":
            name += letter
    return name.strip() or text
