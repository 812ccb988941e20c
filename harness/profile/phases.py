"""How the time of a call on a processor splits over the kernel's loops: where its thread is met while it runs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from harness.building.compilation import library_of
from harness.building.cpu_build import CpuToolchain
from harness.building.loop_remarks import SourceLoop, source_loops
from harness.building.machine_code import MOST_ADDRESSES, kernel_lines
from harness.isolation.policy import Limits
from harness.isolation.scratch import left_behind, scratch_folder
from harness.nouns.build import Build
from harness.nouns.profile import Lines, Phase, Profile
from harness.nouns.task import Signature
from harness.nouns.tier import Tier
from harness.processes.tool_runner import Sampling, Tool, argument_bytes, run_alone, why_unfinished
from harness.profile.roofline import say_remark

LIMIT_S = 1.5
"""Of sampled calls; a longer call is not sampled. To start and to fill the arguments takes some tenths more."""
ENOUGH = 400
"""Ticks in the kernel itself: with so many, a share of a half is within 5 % in 19 of 20 cases."""
LEAST = 30
"""With fewer ticks in all, no share is told."""
MOST_PHASES, MOST_PARTS = 6, 4
_LEAST_SHARE = 0.02
_WARM_MS = 300.0
"""A call that takes longer is not made before the sampled one."""
_START_S = 30.0
_MEMORY = 8 << 30
_ANSWER = "ticks.json"
_MOST_TICKS = 1 << 20
_MOST_WORDS = 300
ELSEWHERE = {
    "libgomp": "OpenMP's runtime: starting threads, and waiting for the last of them",
    "libmvec": "the C library's vector functions",
    "libm.": "the C library's mathematical functions",
    "libm-": "the C library's mathematical functions",
    "libc.": "the C library: copies, memory, waiting",
    "libc-": "the C library: copies, memory, waiting",
}
"""What else is a call's own time, by the beginning of the library's name."""


class UnsampledError(Exception):
    """The calls could not be sampled; the text says why."""


class Ticks(NamedTuple):
    """How often the calling thread was met: by offset in its library, and in others by their names.

    `held_up`: see `Profile`.
    """

    kernel: dict[int, int]
    beside: dict[str, int]
    held_up: float = 0.0

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self.kernel.values()) + sum(self.beside.values())


class LoopOrLine(NamedTuple):
    """What a tick is counted under: a loop, or a line outside of all, each by the call that it was inlined into."""

    loop: int | None
    line: int | None
    caller: int | None


class Sampled(NamedTuple):
    """The phases of a call, the longest first, and what stands beside them in a `Profile`, by its names."""

    phases: tuple[Phase, ...]
    ticks: int
    held_up: float


def sample_phases(
    build: Build, signature: Signature, *, call_ms: float, tier: Tier, limit_s: float = LIMIT_S
) -> Sampled:
    """How the time of a call splits. Raises `UnsampledError`.

    The thread that calls is met, at work or waiting for those that it started. The calls have the same arguments, drawn
    by a rule, again and again.
    """
    library = library_of(build)
    if library is None or not library.is_file():
        raise UnsampledError("its library does not lie here")
    if call_ms > limit_s * 1e3:
        raise UnsampledError(f"a call takes {call_ms / 1e3:.2g} s, and no more than {limit_s:.2g} s are sampled")
    ticks = _sampled(library, signature, calls=1 if call_ms < _WARM_MS else 0, limit_s=limit_s, tier=tier)
    if ticks.total < LEAST:
        raise UnsampledError(f"it was met {ticks.total} times in {limit_s:.2g} s of calls")
    name = CpuToolchain.source_name
    lines = kernel_lines(library, list(ticks.kernel), kernel_file=name, tier=tier)
    if not any(lines.values()):
        raise UnsampledError("no addr2line that knows its lines")
    loops = {remark.line for remark in build.remarks}
    phases = split(ticks, lines, library.with_name(name).read_text(encoding="utf-8"), loops)
    return Sampled(phases, ticks.total, ticks.held_up)


def with_phases(profile: Profile, build: Build, signature: Signature, *, tier: Tier) -> Profile:
    """The profile with its call's phases, or with the reason why there are none.

    Of the compiler's remarks those stay that speak of a loop in which the call was met.
    """
    try:
        sampled = sample_phases(build, signature, call_ms=profile.time_ms, tier=tier)
    except UnsampledError as reason:
        return Profile.model_validate(dict(profile) | {"unsampled": str(reason)})
    met = {phase.loop for phase in sampled.phases}
    cold = {say_remark(remark) for remark in build.remarks if remark.line not in met}
    warm = tuple(each for each in profile.findings if each not in cold)
    return profile.model_copy(update=sampled._asdict() | {"findings": warm})


def _sampled(library: Path, signature: Signature, *, calls: int, limit_s: float, tier: Tier) -> Ticks:
    tool = Tool(
        limits=Limits(wall_s=limit_s + _START_S, memory_bytes=3 * argument_bytes(signature) + _MEMORY),
        calls=calls,
        sampling=Sampling(limit_s=limit_s, enough=ENOUGH, beside=tuple(ELSEWHERE), file=_ANSWER),
    )
    with scratch_folder() as folder:
        done = run_alone(library, signature, tool, device="cpu", tier=tier, folder=folder)
        if done.outcome != "exited" or done.exit_code != 0:
            raise UnsampledError(why_unfinished(done))
        return read_ticks(left_behind(folder / _ANSWER))


def read_ticks(answer: str) -> Ticks:
    """The process's answer, where the kernel could write too: numbers within bounds, or `UnsampledError`."""
    try:
        told = json.loads(answer)
        if unable := told.get("unable"):
            raise UnsampledError(str(unable)[:_MOST_WORDS])
        kernel = {int(at): int(count) for at, count in told["kernel"].items()}
        beside = {name: int(told["beside"].get(name, 0)) for name in ELSEWHERE}
        held_up = float(told["held_up"])
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as unreadable:
        raise UnsampledError("its process left no readable answer") from unreadable
    counts = [*kernel.values(), *beside.values()]
    if not all(0 <= count <= _MOST_TICKS for count in counts) or not all(0 <= at < 1 << 32 for at in kernel):
        raise UnsampledError("its process left no readable answer")
    busiest = sorted(kernel, key=lambda at: -kernel[at])[:MOST_ADDRESSES]
    return Ticks({at: kernel[at] for at in busiest}, beside, min(held_up, 1.0) if held_up >= 0 else 0.0)


def split(
    ticks: Ticks, lines: Mapping[int, Sequence[int]], source: str, machine_loops: Collection[int] = ()
) -> tuple[Phase, ...]:
    """The ticks by the innermost written loop that each lies in, or was inlined into; small ones together.

    `machine_loops` are the lines of the loops that remarks speak of: what lies in one, and in loops inside of it that
    the compiler has unrolled away, counts there.
    """
    written = source_loops(source)
    met: Counter[LoopOrLine] = Counter()
    at_line: dict[LoopOrLine, Counter[int]] = {}
    for offset, count in ticks.kernel.items():
        place, line = _place(lines.get(offset, ()), written, machine_loops)
        met[place] += count
        at_line.setdefault(place, Counter())[line] += count
    total = ticks.total
    phases = [
        Phase(
            share=count / total,
            loop=place.loop,
            line=_hottest(at_line[place]),
            caller=place.caller,
            lines=_parts(at_line[place], total) if place.loop else (),
        )
        for place, count in met.items()
    ]
    phases += [Phase(share=count / total, elsewhere=name) for name, count in _others(ticks.beside).items()]
    ranked = sorted(phases, key=lambda phase: -phase.share)
    shown = [phase for phase in ranked[:MOST_PHASES] if phase.share >= _LEAST_SHARE and _named(phase)]
    rest = 1.0 - sum(phase.share for phase in shown)
    return (*shown, *([Phase(share=rest, elsewhere="the rest of the call")] if rest >= _LEAST_SHARE else []))


def _place(chain: Sequence[int], written: Sequence[SourceLoop], machine: Collection[int]) -> tuple[LoopOrLine, int]:
    """What code with these lines counts under, and which of them it is told by."""
    for depth, line in enumerate(chain):
        around = [loop for loop in written if loop.holds(line)]
        if around:
            known = [loop for loop in around if loop.line in machine]
            loop = min(known or around, key=lambda each: (each.last - each.first, each.line))
            return LoopOrLine(
                loop.line, None, next((each for each in chain[depth + 1 :] if not loop.holds(each)), None)
            ), line
    own, caller = [*chain, 0, 0][:2]
    return LoopOrLine(None, own or None, caller or None), own


def _parts(met: Mapping[int, int], total: int) -> tuple[Lines, ...]:
    """The lines of a loop that take the most, neighbours together, in their order; none where they are one part."""
    parts: list[Lines] = []
    for line in sorted(filter(None, met)):
        share = met[line] / total
        if parts and line == parts[-1].last + 1:
            parts[-1] = Lines(first=parts[-1].first, last=line, share=parts[-1].share + share)
        else:
            parts.append(Lines(first=line, last=line, share=share))
    hot = sorted((each for each in parts if each.share >= _LEAST_SHARE), key=lambda each: -each.share)[:MOST_PARTS]
    return tuple(sorted(hot, key=lambda each: each.first)) if len(hot) > 1 else ()


def _hottest(lines: Counter[int]) -> int | None:
    return lines.most_common(1)[0][0] or None


def _named(phase: Phase) -> bool:
    return bool(phase.line or phase.elsewhere)


def _others(beside: Mapping[str, int]) -> Counter[str]:
    others: Counter[str] = Counter()
    for name, count in beside.items():
        others[ELSEWHERE[name]] += count
    return others
