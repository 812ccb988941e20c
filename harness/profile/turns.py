"""How many instructions of a call lie in which loop: those of a turn, times its turns, which a counting build tells."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence

from harness.building.compilation import compile_candidate, library_of
from harness.building.counted_build import COUNTER, CountedCpuToolchain
from harness.isolation.policy import Limits
from harness.isolation.scratch import left_behind, scratch_folder
from harness.nouns.build import Build, Diagnostic
from harness.nouns.candidate import Candidate
from harness.nouns.profile import Loop, Profile
from harness.nouns.task import Signature
from harness.nouns.tier import Tier
from harness.processes.tool_runner import Counters, Tool, argument_bytes, run_alone, why_unfinished

LIMIT_S = 20.0
"""Of one call on one thread, each of whose labels costs some nanoseconds; to start takes some tenths of a second."""
MOST_LOOPS = 4
_LEAST_SHARE = 0.03
_MEMORY = 8 << 30
_ANSWER = "counts.json"
_ALONE = {"OMP_NUM_THREADS": "1"}
"""Threads would lose each other's counts."""


def counted_build(build: Build, *, tier: Tier) -> Build:
    """The same source with counters. Fails where the library does not lie here, or an assembler does not take it."""
    library, toolchain = library_of(build), CountedCpuToolchain()
    source = library.with_name(toolchain.source_name) if library else None
    if source is None or not source.is_file():
        gone = Diagnostic(severity="error", file="kernel", line=0, message="its source does not lie here")
        return Build(diagnostics=(gone,), seconds=0.0)
    kernel = Candidate(source=source.read_text(encoding="utf-8"), target="cpu", author="profiler")
    return compile_candidate(kernel, toolchain, tier=tier)


def with_turns(profile: Profile, counted: Build, signature: Signature, *, tier: Tier) -> Profile:
    """The profile with the loops that most instructions are in, or with the reason why there are none.

    `counted` is the kernel's build with counters. The call has the same arguments as sampled ones.
    """
    library = library_of(counted)
    labels = {remark.column for remark in counted.remarks}
    if library is None or not labels:
        why = next((each.message for each in counted.diagnostics if each.severity == "error"), "it has no loop")
        return Profile.model_validate(dict(profile) | {"uncounted": why})
    names = tuple(f"{COUNTER}{label}" for label in sorted(labels))
    tool = Tool(
        limits=Limits(wall_s=LIMIT_S, memory_bytes=3 * argument_bytes(signature) + _MEMORY),
        counters=Counters(names, _ANSWER),
        environment=_ALONE,
    )
    with scratch_folder() as folder:
        done = run_alone(library, signature, tool, device="cpu", tier=tier, folder=folder)
        if done.outcome != "exited" or done.exit_code != 0:
            return Profile.model_validate(dict(profile) | {"uncounted": why_unfinished(done)})
        counts = read_counts(left_behind(folder / _ANSWER), names)
    return profile.model_copy(update={"loops": ranked(counted.remarks, counts)})


def read_counts(answer: str, names: Sequence[str]) -> dict[int, int]:
    """The process's answer by label, where the kernel could write too; nothing of what is none."""
    try:
        told = json.loads(answer)
        counts = {int(name.removeprefix(COUNTER)): int(told[name]) for name in names}
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return {}
    return counts if all(0 <= count < 1 << 63 for count in counts.values()) else {}


def ranked(loops: Sequence[Diagnostic], counts: Mapping[int, int]) -> tuple[Loop, ...]:
    """The loops that most instructions are in. Copies of one that do the same in a turn count together."""
    turns: Counter[Loop] = Counter()
    for remark in loops:
        turns[Loop.model_validate_json(remark.message)] += counts.get(remark.column, 0)
    total = sum(loop.instructions * count for loop, count in turns.items())
    told = [
        loop.model_copy(update={"turns": count, "share": loop.instructions * count / total})
        for loop, count in turns.items()
        if loop.instructions * count >= _LEAST_SHARE * max(total, 1)
    ]
    return tuple(sorted(told, key=lambda loop: -loop.share)[:MOST_LOOPS])
