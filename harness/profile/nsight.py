"""Nsight Compute over a kernel: run it in the cage, and read its answer."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from harness.isolation.policy import Access, Limits
from harness.isolation.process import Completed
from harness.isolation.scratch import left_behind, scratch_folder
from harness.machine.nvidia_tools import find_tool, tool_folders
from harness.profile.nsight_metrics import METRICS, SECTIONS
from harness.profile.summary import Hint
from harness.solo import FAILED, Tool, run_alone, why_unfinished
from harness.targets.target import Needs
from harness.task import Signature
from harness.verdict import Tier

LIMIT_S = 150.0
MAX_LAUNCHES = 24
"""Of one call. Each is replayed about forty times, once for each group of counters."""
_HOST_BYTES = 64 << 30
_ANSWER = "answer.csv"

PERMISSION = (
    "The driver lets only administrators read the GPU's counters (ERR_NVGPUCTRPERM), and a kernel under test is none, "
    "even where root runs it: load the nvidia module with NVreg_RestrictProfilingToAdminUsers=0."
)
MISSING = "Nsight Compute (ncu) was not found: install it with the CUDA toolkit, or put it on PATH."


class UnprofiledError(Exception):
    """The counters could not be read; the text says why and what to do."""


@dataclass
class Launch:
    """One launch as Nsight Compute tells it: numbers by metric in base units, and the rules that fired."""

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    metrics: dict[str, float] = field(default_factory=dict)
    hints: list[Hint] = field(default_factory=list)


def read_counters(library: Path, signature: Signature, needs: Needs, *, tier: Tier) -> list[Launch]:
    """Each kernel launch of a second call of the entry, in order. Raises `UnprofiledError`, `MachineError`."""
    program = find_tool("ncu")
    if program is None:
        raise UnprofiledError(MISSING)
    tool = Tool(
        command=command(program),
        access=needs.access + Access(read=tool_folders(program), profiling=True),
        limits=Limits(wall_s=LIMIT_S, memory_bytes=_HOST_BYTES, file_bytes=8 << 30),
        environment=needs.environment,
        calls=2,
    )
    with scratch_folder() as folder:
        done = run_alone(library, signature, tool, device="cuda", tier=tier, folder=folder)
        return read_run(done, left_behind(folder / _ANSWER))


def command(program: Path) -> tuple[str, ...]:
    """Nsight Compute's command line up to the program that it starts."""
    sections = (word for section in SECTIONS for word in ("--section", section))
    return (
        str(program), "--clock-control", "none", "--target-processes", "all", "--profile-from-start", "off",
        "--launch-count", str(MAX_LAUNCHES), *sections, "--metrics", ",".join(METRICS), "--csv", "--page", "details",
        "--print-units", "base", "--log-file", _ANSWER,
    )  # fmt: skip


def read_run(done: Completed, answer: str) -> list[Launch]:
    """The launches of a finished run. Raises `UnprofiledError`."""
    said = f"{answer}\n{(done.stdout + done.stderr).decode(errors='replace')}"
    if "ERR_NVGPUCTRPERM" in said:
        raise UnprofiledError(PERMISSION)
    launches = parse_answer(answer.splitlines())
    if launches:
        return launches
    told = next((line.removeprefix("==ERROR==").strip() for line in said.splitlines() if "==ERROR==" in line), "")
    if done.exit_code == FAILED or not told:
        told = why_unfinished(done) if done.exit_code != 0 else "the call launched no kernel"
    raise UnprofiledError(f"Nsight Compute read nothing: {told.rstrip('.')}. Try ncu on its own with a small program.")


def parse_answer(lines: Iterable[str]) -> list[Launch]:
    """The launches in the comma-separated details page; other lines, before and after the table, are passed over."""
    rows = csv.DictReader(_table(lines))
    launches: dict[str, Launch] = {}
    for row in rows:
        launch = launches.setdefault(row["ID"], _launch(row))
        if name := row.get("Metric Name"):
            if (value := number(row.get("Metric Value"))) is not None:
                # "Memory Throughput" comes twice: first the share of the peak, later bytes a second.
                launch.metrics.setdefault(name, value)
        elif (message := row.get("Rule Description")) and row.get("Estimated Speedup Type") == "global":
            gain = number(row.get("Estimated Speedup")) or 0.0  # a "local" one is of one unit's time, not the kernel's
            launch.hints.append(Hint(message=message, gain=gain / 100))
    return list(launches.values())


def _launch(row: dict[str, str]) -> Launch:
    return Launch(row["Kernel Name"], _extent(row["Grid Size"]), _extent(row["Block Size"]))


def _extent(text: str) -> tuple[int, int, int]:
    """`(256, 1, 1)` as numbers."""
    x, y, z = (int(part) for part in text.strip("() ").split(","))
    return x, y, z


def number(text: str | None) -> float | None:
    """A number as the table spells it, with commas between thousands; None for a word, nothing, or no number at all."""
    try:
        value = float((text or "").replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _table(lines: Iterable[str]) -> Iterator[str]:
    """From the head line on."""
    begun = False
    for line in lines:
        begun = begun or line.startswith('"ID"')
        if begun and line.startswith('"'):
            yield line
