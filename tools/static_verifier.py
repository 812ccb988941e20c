"""The verifiers that need no model: what screen and compiler say of a kernel, and what a watched call of it does."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

from harness.building.linting import lint
from harness.judging.protocol import Judge
from harness.nouns.build import Build, Diagnostic
from harness.nouns.candidate import Candidate
from harness.nouns.sanitizer_run import SanitizerRun
from harness.nouns.task import Task
from harness.processes.tool_runner import CALL_FAILED
from tools.claims import spills, unmet_claims
from tools.opinions import Opinion

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
    judge: Judge, task: Task, candidate: Candidate, move: str = "", build: Build | None = None, *, tidy: bool = False
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
    if tidy and candidate.target == "cpu":
        warnings += tuple(_said(each) for each in lint(candidate.source, tier=judge.tier))
    unmet = (*unmet_claims(move, build, candidate.target), *spills(build))
    return _opinion(WARNED if warnings else CLEAN, warnings, began, unmet)


def sanitizer_opinion(judge: Judge, task: Task, candidate: Candidate) -> Opinion:
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
