"""The verifiers that need no model: what screen and compiler say of a kernel, and what a watched call of it does."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass

from harness.building.compilation import library_of
from harness.building.linting import lint
from harness.building.toolchain import opcodes
from harness.judging.protocol import KernelJudge
from harness.nouns.build import Build, Diagnostic
from harness.nouns.candidate import Candidate, TargetName
from harness.nouns.devices import on_gpu
from harness.nouns.sanitizer_run import SanitizerRun
from harness.nouns.task import Task
from harness.processes.tool_runner import CALL_FAILED
from tools.opinions import Opinion

# -- Whether what a move claims is in the machine code: wide vectors, asynchronous copies, tensor cores; and spills ---


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
    if not on_gpu(target):
        yield from _without_vectors(move, build)
    else:
        yield from _without_instructions(move, build)


def say_instructions(build: Build, target: TargetName) -> str:
    """Which of what makes a GPU's kernels fast its machine code has, and which not; empty where nobody can look."""
    library = library_of(build) if on_gpu(target) and build.succeeded else None
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


# -- The verifiers that need no model: what screen and compiler say of a kernel, and what a watched call of it does ---


CANNOT_RUN = 0.0
"""What the screen refuses or the compiler rejects never passes."""
FOUND = 0.02
"""A tool saw a fault: it may be one that the judge's inputs never meet."""
WARNED = 0.1
CLEAN = 0.7
"""Nothing seen. docs/evolve.md has the shares that these stand for, measured."""

_TELLING = re.compile(
    r"uninitialized|used before|array bounds|out of bounds|subscript|overflow|division by zero|dangling"
)
"""Warnings that name a fault, of g++ and of nvcc; the others name untidiness."""


def static_opinion(
    judge: KernelJudge,
    task: Task,
    candidate: Candidate,
    move: str = "",
    build: Build | None = None,
    *,
    tidy: bool = False,
) -> Opinion:
    """What the screen, the compiler's warnings and the machine code tell, and with `tidy` clang-tidy, where there is
    one, of a kernel for a processor. It runs nothing.

    `build` is the candidate's, where it is known. Raises `MachineError`.
    """
    began = time.monotonic()
    if refusal := judge.screen(task, candidate):
        return _opinion(CANNOT_RUN, (str(refusal),), began)
    build = build or judge.build(task, candidate)
    if not build.succeeded:
        first = next(each for each in build.diagnostics if each.severity == "error")
        return _opinion(CANNOT_RUN, (_said(first),), began)
    warnings = tuple(telling(build))
    if tidy and not on_gpu(candidate.target):
        warnings += tuple(_said(each) for each in lint(candidate.source, tier=judge.tier))
    unmet = (*unmet_claims(move, build, candidate.target), *spills(build))
    return _opinion(WARNED if warnings else CLEAN, warnings, began, unmet)


def sanitizer_opinion(judge: KernelJudge, task: Task, candidate: Candidate) -> Opinion:
    """What sanitizers see of one call, on smaller sizes where the task's own take long. Raises `MachineError`."""
    began = time.monotonic()
    faults = tuple(_faults(judge.sanitize(task, candidate)))
    right = FOUND if faults else CLEAN
    return Opinion(verifier="sanitizers", right=right, reasons=faults, seconds=time.monotonic() - began)


def telling(build: Build) -> Iterator[str]:
    """The warnings on the kernel itself that name a fault."""
    for each in build.diagnostics:
        if each.severity == "warning" and each.file == "kernel" and _TELLING.search(each.message):
            yield _said(each)


def _faults(runs: tuple[SanitizerRun, ...]) -> Iterator[str]:
    for run in runs:
        yield from (finding.message for finding in run.findings)
        if run.note.startswith(CALL_FAILED):
            yield run.note


def _said(found: Diagnostic) -> str:
    return f"{found.file}:{found.line}: {found.severity}: {found.message}"


def _opinion(right: float, reasons: tuple[str, ...], began: float, unmet: tuple[str, ...] = ()) -> Opinion:
    return Opinion(verifier="static", right=right, reasons=reasons, unmet=unmet, seconds=time.monotonic() - began)
