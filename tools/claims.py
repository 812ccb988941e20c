"""Whether what a move claims is in the machine code: wide vectors, asynchronous copies, tensor cores; and spills."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from harness.building.compilation import library_of
from harness.building.sass import opcodes
from harness.nouns.build import Build
from harness.nouns.candidate import TargetName


@dataclass(frozen=True)
class Claim:
    """Words of a move, and a pattern of which the machine code must have one instruction."""

    words: re.Pattern[str]
    shown_by: re.Pattern[str]
    what: str


def _claim(words: str, shown_by: str, what: str) -> Claim:
    return Claim(re.compile(words, re.IGNORECASE), re.compile(shown_by), what)


# Opcodes as cuobjdump names them (CUDA binary utilities, instruction sets of Ampere and Hopper).
_ON_CUDA = (
    _claim(r"\bwgmma|warpgroup", r"[HIQ]GMMA", "wgmma"),
    _claim(r"multicast", r"(?:UTMALDG|UBLKCP)\S*\.MULTICAST", "multicast"),
    _claim(r"\btma\b|bulk cop", r"UTMALDG|UTMASTG|UBLKCP", "a TMA or bulk copy"),
    _claim(r"cp\.?_?async|asynchronous cop", r"LDGSTS|UTMALDG|UBLKCP", "an asynchronous copy"),
    _claim(r"tensor core|\bmma\b", r"[HIDQ](?:G?MMA)", "a tensor-core product"),
    _claim(
        r"128[- ]bit|float4|vector(?:ized)? (?:access|load|cop)", r"(?:LDG|LDGSTS|STG|LDS)\S*\.128", "a 128-bit access"
    ),
)
_VECTORS = re.compile(r"\bsimd\b|vectoriz|\bvectors?\b|\bavx", re.IGNORECASE)
_IN_VECTORS = re.compile(r"\d+-bit vectors")


def unmet_claims(move: str, build: Build, target: TargetName) -> Iterator[str]:
    """What a move says of the kernel that its build does not have; nothing where nobody can look."""
    if target == "cpu":
        yield from _without_vectors(move, build)
    else:
        yield from _without_instructions(move, build)


def say_instructions(build: Build, target: TargetName) -> str:
    """Which of what makes a GPU's kernels fast its machine code has, and which not; empty where nobody can look."""
    library = library_of(build) if target == "cuda" and build.succeeded else None
    found = opcodes(library) if library else frozenset()
    if not found:
        return ""
    has = [claim.what for claim in _ON_CUDA if any(map(claim.shown_by.match, found))]
    lacks = [claim.what for claim in _ON_CUDA if claim.what not in has]
    return (
        f"Its machine code has: {', '.join(has) or 'none of what follows'}; it lacks: {', '.join(lacks) or 'nothing'}."
    )


def spills(build: Build) -> Iterator[str]:
    """The kernels whose registers do not suffice."""
    for use in build.resources:
        if use.spill_bytes:
            yield f"{use.kernel} spills {use.spill_bytes} bytes at {use.registers} registers a thread"


def _without_vectors(move: str, build: Build) -> Iterator[str]:
    loops = [remark.message for remark in build.remarks]
    if _VECTORS.search(move) and loops and not any(map(_IN_VECTORS.search, loops)):
        yield f"no loop computes with vectors: {loops[0]}"


def _without_instructions(move: str, build: Build) -> Iterator[str]:
    claimed = [claim for claim in _ON_CUDA if claim.words.search(move)]
    library = library_of(build) if claimed else None
    found = opcodes(library) if library else frozenset()
    for claim in claimed:
        if found and not any(map(claim.shown_by.match, found)):
            yield f"the machine code has no {claim.what.removeprefix('a ').removeprefix('an ')}"
