"""A build that did not come off, in words that a model can act on."""

from __future__ import annotations

from harness.building.gcc import KERNEL, select
from harness.isolation.process import Completed
from harness.nouns.build import Build, Diagnostic

_TAIL_LINES = 6
_TAIL_CHARACTERS = 600


def failed_build(completed: Completed, diagnostics: tuple[Diagnostic, ...], output: str) -> Build:
    """The failed build. Where no message of the compiler explains the failure, one that tells how it ended is added."""
    if completed.outcome != "exited":
        diagnostics = select((_error(_ending(completed)), *diagnostics))
    elif not any(diagnostic.severity == "error" for diagnostic in diagnostics):
        tail = "\n".join(_compilers_words(output)[-_TAIL_LINES:])[-_TAIL_CHARACTERS:]
        said = f"and said: {tail}" if tail else "and said nothing"
        diagnostics = select((_error(f"The compiler ended with exit code {completed.exit_code} {said}"), *diagnostics))
    return Build(diagnostics=diagnostics, seconds=completed.wall_s)


def _compilers_words(output: str) -> list[str]:
    """The output's lines without those of ninja: a failed edge is announced, and its command repeated below that."""
    kept: list[str] = []
    lines = iter(output.strip().splitlines())
    for line in lines:
        if line.startswith("FAILED: "):
            next(lines, None)
        elif not line.startswith("ninja: "):
            kept.append(line)
    return kept


def _ending(completed: Completed) -> str:
    took = f"after {completed.wall_s:.0f} s"
    peak = f"with {completed.peak_memory_bytes >> 20} MB in use"
    return {
        "timed_out": f"The compiler was stopped {took}: the source takes too long to compile. Unroll and nest less.",
        "out_of_memory": f"The compiler was stopped {peak}: the source needs too much memory. Instantiate less.",
        "flooded": f"The compiler was stopped: {completed.note}.",
        "signalled": f"The compiler was ended by {completed.signal} {took}.",
    }[completed.outcome]


def _error(message: str) -> Diagnostic:
    return Diagnostic(severity="error", file=KERNEL, line=1, message=message)
