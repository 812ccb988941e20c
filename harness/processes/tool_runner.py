"""Start a candidate alone behind a tool's command: a profiler or a sanitizer."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from harness.candidate.tool_runner import FAILED as FAILED
from harness.candidate.tool_runner import UNWRITTEN
from harness.isolation.policy import Access, Limits
from harness.isolation.process import Completed, run_isolated
from harness.nouns.candidate import TargetName
from harness.nouns.sanitizer_run import Finding
from harness.nouns.task import ScalarSpec, Signature
from harness.nouns.tier import Tier
from harness.processes.candidate_process import PROGRAMS, access_to, environment, runtime_library
from harness.wire.layout import span_bytes, values_file

_SOLO = PROGRAMS / "tool_runner.py"
_ORDER = "order.json"
_LEFT = re.compile(rf"^{UNWRITTEN} (?P<name>\S+): (?P<count>\d+) of (?P<words>\d+), .* (?P<first>\d+)$", re.MULTILINE)
CALL_FAILED = "the call failed"
"""Begins the sentence on a kernel that raised an error, on arguments of its own task."""


@dataclass(frozen=True)
class Sampling:
    """Calls beside the tool's own, of which is counted where their processor time goes.

    They end when `enough` ticks met its own code, or after `limit_s`. The answer lies in `file`, as
    `harness/candidate/sampling.py` says; `beside` are further libraries' names, by their beginnings.
    """

    limit_s: float
    enough: int
    beside: tuple[str, ...]
    file: str


@dataclass(frozen=True)
class Counters:
    """Variables of 64 bits that the library exports: what they hold after the calls lies in `file`, by their names."""

    names: tuple[str, ...]
    file: str


@dataclass(frozen=True)
class Tool:
    """What stands before the candidate's process: a command, and what it needs beside what the candidate does.

    `calls` of the entry are made, of which a profiler sees the last. `{scratch}` in the environment's values stands for
    the process's private folder. `values` is a folder that `draw_arguments` filled; without one, floats are drawn by a
    rule and integers are 0. `spoilt`: outputs on a GPU hold before the call what no kernel computes, and what is left
    of that is told, as it always is on a processor.
    """

    command: tuple[str, ...] = ()
    access: Access = field(default_factory=Access)
    limits: Limits = field(default_factory=Limits)
    environment: dict[str, str] = field(default_factory=dict)
    calls: int = 1
    values: Path | None = None
    sampling: Sampling | None = None
    counters: Counters | None = None
    spoilt: bool = False


def run_alone(
    library: Path, signature: Signature, tool: Tool, *, device: TargetName, tier: Tier, folder: Path
) -> Completed:
    """Run the library's entry under `tool` in `folder`, where the tool's files lie afterwards."""
    order = {
        "library": str(library),
        "device": device,
        "calls": tool.calls,
        "spoilt": tool.spoilt,
        "sampling": asdict(tool.sampling) if tool.sampling else None,
        "counters": asdict(tool.counters) if tool.counters else None,
        "arguments": _arguments(signature, tool.values),
    }
    (folder / _ORDER).write_text(json.dumps(order), encoding="utf-8")
    values = Access(read=(str(tool.values),) if tool.values else ())
    return run_isolated(
        [*tool.command, sys.executable, "-I", "-S", str(_SOLO), _ORDER, str(runtime_library())],
        cwd=folder,
        access=access_to(library) + tool.access + values,
        limits=tool.limits,
        environment=environment(tool.environment, folder),
        tier=tier,
    )


def why_unfinished(done: Completed) -> str:
    """Why a tool's run says nothing: the kernel raised an error, or a limit was met."""
    if done.outcome == "timed_out":
        return f"it did not end within {done.wall_s:.0f} s at these shapes{_busy()}"
    if done.outcome == "exited" and done.exit_code == FAILED:
        return f"{CALL_FAILED}: {done.stderr.decode(errors='replace').strip()[-300:]}"
    ended = done.note or done.signal or f"exit code {done.exit_code}"
    return f"it ended early ({done.outcome}: {ended}) {done.stderr.decode(errors='replace').strip()[-300:]}".strip()


def _busy() -> str:
    """That others took the time, too: what ends soon by itself may not where more wants to run than can."""
    load, processors = os.getloadavg()[0], len(os.sched_getaffinity(0))
    return f"; the machine was busy (load {load:.0f} on {processors} processors)" if load > processors else ""


def unwritten(text: str) -> Iterator[Finding]:
    """A finding for each output that a call has not written everywhere, as the process's stderr names them."""
    for left in _LEFT.finditer(text):
        share = f"{left['count']} of the {left['words']} words of 4 bytes, from word {left['first']} on"
        yield Finding(kind="unwritten output", message=f"{left['name']} is not written everywhere: {share}.")


def argument_bytes(signature: Signature) -> int:
    """Bytes of all arguments together."""
    return sum(spec["bytes"] for spec in _arguments(signature) if spec["kind"] == "tensor")


def _arguments(signature: Signature, values: Path | None = None) -> list[dict[str, Any]]:
    described = []
    given = len(signature.inputs) + len(signature.parameters)
    for position, spec in enumerate(signature.arguments):
        fields = spec.model_dump(mode="json")
        if not isinstance(spec, ScalarSpec):
            file = str(values / values_file(position)) if values else ""
            fields |= {"bytes": span_bytes(spec), "filled": position < given, "values": file}
        described.append(fields)
    return described
