"""What a sanitizer found in one kernel, or why it could not look."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from harness.nouns.frozen import Frozen, SanitizedText

MAX_FINDINGS = 5


class Finding(Frozen):
    """One defect. `kind` in the tool's own word, `message` a sentence, `line` the kernel's own where it is known."""

    kind: SanitizedText
    message: SanitizedText
    line: int | None = None


class Smaller(Frozen):
    """The sizes at which a kernel was watched where the task's own take a tool too long.

    `shapes` are all tensors', in the order of the call. `numbers` are those of the kernel's source that were replaced
    and what by; there are none where it takes its sizes from its arguments.
    """

    shapes: tuple[tuple[int, ...], ...]
    numbers: tuple[tuple[int, int], ...] = ()


class SanitizerRun(Frozen):
    """One tool's run over one workload. "skipped" says nothing of the kernel: `note` tells why it could not look.

    `unwatched` tells what of this kernel a clean run could not see, where that is known.
    At most `MAX_FINDINGS` are kept, the first ones. `workload` names one of several; `smaller` is there where the
    tool did not watch at its sizes. `ended` is false for a tool that met its limit, after `seconds`.
    """

    tool: str
    status: Literal["clean", "found", "skipped"]
    findings: tuple[Finding, ...] = Field(default=(), max_length=MAX_FINDINGS)
    note: SanitizedText = ""
    unwatched: str = ""
    seconds: float = 0.0
    ended: bool = True
    workload: str = ""
    smaller: Smaller | None = None

    @model_validator(mode="after")
    def _fields_fit_the_status(self) -> Self:
        if (self.status == "found") != bool(self.findings):
            raise ValueError("findings belong to a run that found something, and to no other")
        if (self.status == "skipped") != bool(self.note):
            raise ValueError("a note says why a run was skipped, and only that")
        if self.unwatched and self.status != "clean":
            raise ValueError("what was not watched belongs to a clean run")
        if self.status == "clean" and not self.ended:
            raise ValueError("a run that met its limit is not clean")
        return self


def first_finding(runs: tuple[SanitizerRun, ...]) -> Finding | None:
    """The first defect of all runs, or None."""
    return next((finding for run in runs for finding in run.findings), None)
