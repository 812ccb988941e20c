"""Nsight Compute over a kernel: run it in the cage, and read its answer."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from harness.building.toolchain import find_tool, tool_folders
from harness.isolation.policy import Access, Limits, Needs
from harness.isolation.process import Completed
from harness.isolation.scratch import left_behind, scratch_folder
from harness.nouns.profile import Hint
from harness.nouns.task import Signature
from harness.nouns.tier import Tier
from harness.processes.tool_runner import FAILED, Tool, run_alone, why_unfinished

# -- Which of Nsight Compute's numbers a profile is made of, under the names that it gives them -----------------------


SECTIONS = (
    "SpeedOfLight", "LaunchStats", "Occupancy", "WorkloadDistribution", "MemoryWorkloadAnalysis",
    "MemoryWorkloadAnalysis_Tables", "ComputeWorkloadAnalysis", "SchedulerStats", "WarpStateStats", "SourceCounters",
)  # fmt: skip
"""They bring the tool's own rules, whose messages carry an estimated gain."""

# From the sections, under the names that the details page shows.
COMPUTE, MEMORY, DRAM = "Compute (SM) Throughput", "Memory Throughput", "DRAM Throughput"
ISSUE = "Issue Slots Busy"
OCCUPANCY, OCCUPANCY_POSSIBLE = "Achieved Occupancy", "Theoretical Occupancy"
REGISTERS, WAVES = "Registers Per Thread", "Waves Per SM"
SHARED_STATIC, SHARED_DYNAMIC = "Static Shared Memory Per Block", "Dynamic Shared Memory Per Block"
LIMITS = {
    "Block Limit Registers": "registers",
    "Block Limit Shared Mem": "shared memory",
    "Block Limit Warps": "the block's size",
    "Block Limit SM": "blocks a multiprocessor",
    "Block Limit Barriers": "barriers",
}
"""How many blocks fit a multiprocessor by each resource: the smallest number limits."""

BASE_UNITS = {
    "us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "s": 1e9, "second": 1e9,
    "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "Tbyte": 1e12,
}  # fmt: skip
"""How many nanoseconds or bytes a unit is: base units are asked for, and what says otherwise is not read as one."""

# Asked for by name.
DURATION = "gpu__time_duration.sum"
DRAM_READ, DRAM_WRITTEN = "dram__bytes_read.sum", "dram__bytes_write.sum"
L1_HITS, L2_HITS = "l1tex__t_sector_hit_rate.pct", "lts__t_sector_hit_rate.pct"
FMA = "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active"
TENSOR = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"
LOAD_EFFICIENCY = "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct"
STORE_EFFICIENCY = "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.pct"
LOAD_SECTORS = "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio"
STORE_SECTORS = "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio"
CONFLICTS = (
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
)
WAVEFRONTS = (
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
)
SPILLS = ("smsp__inst_executed_op_local_ld.sum", "smsp__inst_executed_op_local_st.sum")
INSTRUCTIONS = "smsp__inst_executed.sum"

STALL_PREFIX, STALL_SUFFIX = "smsp__average_warps_issue_stalled_", "_per_issue_active.ratio"
STALLS = {
    "long_scoreboard": "waiting for device memory or the L2",
    "short_scoreboard": "waiting for shared memory or special functions",
    "barrier": "waiting at a barrier",
    "math_pipe_throttle": "waiting for a busy arithmetic pipe",
    "mio_throttle": "waiting for the queue of shared memory and special functions",
    "lg_throttle": "waiting for the queue of global and local memory",
    "tex_throttle": "waiting for the queue of the texture unit",
    "drain": "waiting for stores to drain before the end",
    "wait": "waiting for a fixed latency",
    "dispatch_stall": "waiting for the dispatch unit",
    "no_instruction": "waiting for instructions (a long or branching code)",
    "imc_miss": "waiting for the constant cache",
    "branch_resolving": "waiting for a branch",
    "membar": "waiting for a memory fence",
    "sleeping": "sleeping",
    "misc": "other reasons",
    "not_selected": "ready, but another warp was chosen",
    "selected": "issuing",
    "gmma": "waiting for a warp group's matrix product",
    "warpgroup_arrive": "waiting for its warp group",
}
WAITING = tuple(name for name in STALLS if name not in ("not_selected", "selected"))

METRICS = (
    DURATION, DRAM_READ, DRAM_WRITTEN, L1_HITS, L2_HITS, FMA, TENSOR, LOAD_EFFICIENCY, STORE_EFFICIENCY, LOAD_SECTORS,
    STORE_SECTORS, *CONFLICTS, *WAVEFRONTS, *SPILLS, INSTRUCTIONS,
    f"regex:{STALL_PREFIX}.*_per_issue_active",
)  # fmt: skip


# -- Nsight Compute over a kernel: run it in the cage, and read its answer --------------------------------------------


LIMIT_S = 150.0
MAX_LAUNCHES = 24
"""Of one call. Each is replayed about forty times, once for each group of counters."""
_HOST_BYTES = 64 << 30
_ANSWER = "answer.csv"
_MAX_LINE = 1 << 16
_MAX_REASON = 300
_MOST = 1e18
"""No counter of a call goes so far: neither does infinity, nor what is no number."""
_EXTENT = re.compile(r"\(?(\d{1,10}), (\d{1,10}), (\d{1,10})\)?")

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
    """The launches of a finished run whose time was measured. Raises `UnprofiledError`."""
    said = f"{answer}\n{(done.stdout + done.stderr).decode(errors='replace')}"
    if "ERR_NVGPUCTRPERM" in said:
        raise UnprofiledError(PERMISSION)
    launches = parse_answer(answer.splitlines())
    if timed := [launch for launch in launches if launch.metrics.get(DURATION, 0.0) > 0]:
        return timed[
            :MAX_LAUNCHES
        ]  # of what is told without a time, as where a run was cut short, no share and no limit is known
    told = next((line.removeprefix("==ERROR==").strip() for line in said.splitlines() if "==ERROR==" in line), "")
    if done.exit_code == FAILED or not told:
        told = why_unfinished(done) if done.exit_code != 0 else _nothing_told(launches)
    told = told[:_MAX_REASON].rstrip(".")
    raise UnprofiledError(f"Nsight Compute read nothing: {told}. Try ncu on its own with a small program.")


def _nothing_told(launches: list[Launch]) -> str:
    return f"of {launches[0].name} it measured no time" if launches else "the call launched no kernel"


def parse_answer(lines: Iterable[str]) -> list[Launch]:
    """The launches in the comma-separated details page, their numbers in base units.

    Passed over are lines before and after the table, and rows of another form: the file lies where the kernel under
    test can write, and is cut off where the run was.
    """
    launches: dict[str, Launch] = {}
    for row in _rows(lines):
        launch = launches.get(row["ID"]) or _launch(row)
        if launch is None:
            continue
        launches[row["ID"]] = launch
        if name := row.get("Metric Name"):
            if (value := number(row.get("Metric Value"), row.get("Metric Unit", ""))) is not None:
                # "Memory Throughput" comes twice: first the share of the peak, later bytes a second.
                launch.metrics.setdefault(name, value)
        elif (message := row.get("Rule Description")) and row.get("Estimated Speedup Type") == "global":
            gain = number(row.get("Estimated Speedup")) or 0.0  # a "local" one is of one unit's time, not the kernel's
            launch.hints.append(Hint(message=message, gain=gain / 100))
    return list(launches.values())


def _launch(row: dict[str, str]) -> Launch | None:
    grid, block = _extent(row.get("Grid Size", "")), _extent(row.get("Block Size", ""))
    return Launch(row["Kernel Name"], grid, block) if grid and block and row.get("Kernel Name") else None


def _extent(text: str) -> tuple[int, int, int] | None:
    """`(256, 1, 1)` as numbers."""
    found = _EXTENT.fullmatch(text.strip())
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


def number(text: str | None, unit: str = "") -> float | None:
    """A number as the table spells it, with commas between thousands, in base units: nanoseconds and bytes.

    None for a word, nothing, or no number at all.
    """
    try:
        value = float((text or "").replace(",", ""))
    except ValueError:
        return None
    value *= BASE_UNITS.get(unit.partition("/")[0], 1.0)
    return value if abs(value) < _MOST else None


def _rows(lines: Iterable[str]) -> Iterator[dict[str, str]]:
    """The table's rows, from the head line on. Each is read by itself: an open quote does not reach into the next."""
    head: list[str] | None = None
    for line in lines:
        if not line.startswith('"') or len(line) > _MAX_LINE:
            continue
        cells = next(csv.reader([line]))
        if head is None:
            head = cells if cells[0] == "ID" else None
        else:
            yield dict(zip(head, cells, strict=False))
