"""A table as text, to be drawn on the terminal or written into a Markdown page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from graph.runs.machine import Machine
from graph.runs.suite_record import Figures, Row, SuiteRecord, figures, ratio
from harness.nouns.verdict import Timing, precision_on
from nodes.state import money
from tools.wording import say_tolerance


@dataclass(frozen=True)
class Sheet:
    """A table before it is drawn."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def drawn(sheet: Sheet) -> Table:
    """For the terminal. Cells are shown as they are: a name that a model chose is no markup."""
    table = Table(title=sheet.title, title_justify="left", box=None, pad_edge=False, header_style="dim")
    for name in sheet.head:
        table.add_column(name, overflow="fold")  # a name that is cut off could be another's
    for row in sheet.rows:
        table.add_row(*map(Text, row))
    return table


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)


# -- A suite's results as tables: for the terminal, and as the page results.md in its folder --------------------------


STATUS = {
    "improved": "faster",
    "nothing_faster": "not faster",
    "no_kernel": "no kernel",
    "degenerate": "degenerate",
    "not_a_task": "no task",
    "machine_failed": "machine",
    "defect": "defect",
    "interrupted": "not ended",
    "waiting": "not begun",
}
WAYS = ("forward", "backward", "both")
_NUMBER = re.compile(r"^\d+[-_]")
HEAD = (
    "id", "task", "status", "speed-up", "95 % interval", "clock", "over compile", "kernel ms", "eager ms",
    "by other clocks", "of floor", "depth",
    "judged", "run s", "cost $", "$ per 0.1x",
)  # fmt: skip


def rows_sheet(title: str, rows: Sequence[Row]) -> Sheet:
    """One line a task."""
    return Sheet(title, HEAD, tuple(_line(row) for row in rows))


def figures_sheet(named: Sequence[tuple[str, Figures]]) -> Sheet:
    """One line a group of tasks."""
    head = (
        "tasks", "right", "faster", "geomean", "median", "fast_1", "fast_1.2", "fast_2", "cost $", "$ a kernel",
        "$ per 0.1x",
    )  # fmt: skip
    return Sheet("In sum, speed-up over eager", head, tuple(_figures(name, found) for name, found in named))


def workloads_sheet(rows: Sequence[Row]) -> Sheet:
    """One line a file whose workloads are tasks: a kernel that is slow on one of them shows."""
    wholes = dict.fromkeys(row.whole for row in rows if row.whole)
    lines = (_over_workloads(whole, [row for row in rows if row.whole == whole]) for whole in wholes)
    return Sheet("Over each file's workloads", ("file", "right", "faster", "least", "geomean", "most"), tuple(lines))


def directions_sheet(rows: Sequence[Row]) -> Sheet:
    """One line a workload of a module with tasks in several directions, which their files' names tell."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    for row in rows:
        stem, direction = _direction(row.whole or row.name)
        work = row.name.removeprefix(row.whole).strip() if row.whole else ""
        cells = found.setdefault((stem, work), {})
        cells[direction] = f"{row.timing.headline.speedup:.2f}x" if row.timing else STATUS[row.status]
    several = {stem for stem, _ in found if len({way for key in found if key[0] == stem for way in found[key]}) > 1}
    lines = (
        (stem, work, *(cells.get(way, "") for way in WAYS)) for (stem, work), cells in found.items() if stem in several
    )
    return Sheet("Forward and backward", ("module", "workload", *WAYS), tuple(lines))


def over_sheets(rows: Sequence[Row]) -> tuple[Sheet, ...]:
    """What sums up tasks that belong together; none where no two do."""
    return tuple(sheet for sheet in (workloads_sheet(rows), directions_sheet(rows)) if sheet.rows)


def _direction(name: str) -> tuple[str, str]:
    """A task's module and direction, by its file's name without the number."""
    plain = _NUMBER.sub("", name)
    way = next((way for way in WAYS[1:] if plain.endswith(f"_{way}")), WAYS[0])
    return plain.removesuffix(f"_{way}"), way


def _over_workloads(whole: str, rows: Sequence[Row]) -> tuple[str, ...]:
    found = figures(rows)
    speedups = [row.timing.headline.speedup for row in rows if row.timing and not row.timing.task_defect]
    told = (min(speedups), found.geomean or 0, max(speedups)) if speedups else ()
    shown = tuple(f"{speedup:.2f}x" for speedup in told) or ("",) * 3
    return (f"{whole} ({len(rows)})", str(found.right), str(found.faster), *shown)


def page(record: SuiteRecord) -> str:
    """The results as Markdown: the machine, both tables, and why each run ended."""
    parts = [
        f"# Suite {record.name}",
        preamble(record),
        "## Each task",
        *_as_markdown(rows_sheet("", record.rows)),
        *(part for over in over_sheets(record.rows) for part in (f"## {over.title}", *_as_markdown(over))),
        "## In sum",
        *_as_markdown(figures_sheet((("all", record.figures),))),
        "## Why each run ended",
        "\n".join(f"- {row.name}: {_why(row)}" for row in record.rows),
    ]
    return "\n\n".join(parts) + "\n"


def preamble(record: SuiteRecord) -> str:
    """What the numbers mean, and where and how they were measured."""
    settings = record.settings
    tolerated = " ".join(["", *say_tolerance(settings.get("tolerance", 1.0)).splitlines()])
    precision = precision_on("cuda" if record.facts.architecture else "cpu", settings["precision"])
    scaled = "" if record.scale == 1.0 else f", sizes scaled by {record.scale:g}"
    return (
        f"Kernels by {settings['model']}, at most {settings['max_depth']} optimizations a task{scaled}, all judged. "
        f"Speed-up is eager / kernel at the same precision ({precision}), from interleaved runs with cold caches, or "
        "by the caller's clock on the exported drop-in where that gain is smaller by more than 5 %. The share of the "
        "floor is the time that the task's bytes (and FLOPs) need at the device's measured rate, over the kernel's "
        "time; a kernel with fewer FLOPs than the reference counts (a triangle) has the floor of its bytes "
        f"alone.{_SHORT if any(map(_graphed, record.rows)) else ''}{tolerated}\n\n"
        f"- Device: {record.facts.device}, {record.facts.peak_gb_s:,.0f} GB/s ({record.facts.source})\n"
        f"- {machine_line(record.machine)}\n"
        f"- When: {record.created:%Y-%m-%d %H:%M} UTC, {record.seconds:.0f} s with {record.jobs} jobs"
    )


_SHORT = (
    " Eager calls below 0.02 ms are marked as launch-bound; short ones are also timed as CUDA graphs of 20 calls, "
    "drop-in and eager alike, on which no verdict rests."
)


def _graphed(row: Row) -> bool:
    return bool(row.timing and row.timing.caller and row.timing.caller.graphed)


def machine_line(machine: Machine) -> str:
    """The processor and the versions."""
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    return (
        f"Machine: {machine.cpu}, {machine.cores} cores, {machine.memory_gib} GiB, {machine.system}; "
        f"Python {machine.python}, {versions}"
    )


def _why(row: Row) -> str:
    defect = row.timing.task_defect if row.timing else ""
    return " ".join(part for part in (defect, row.reason or STATUS[row.status]) if part)


def _as_markdown(sheet: Sheet) -> tuple[str]:
    return (markdown(sheet.head, sheet.rows),)


def _line(row: Row) -> tuple[str, ...]:
    timing = row.timing
    return (
        str(row.id),
        row.name,
        STATUS[row.status],
        f"{timing.headline.speedup:.2f}x" if timing else "",
        timing.headline.interval.said() if timing else "",
        timing.headline.clock if timing else "",
        _over_compile(row.beside_compiled),
        f"{timing.headline.ms:.3f}" if timing else "",
        _eager(timing) if timing else "",
        _by_other_clocks(timing),
        row.floor_said,
        str(row.depth),
        str(row.kernels_judged),
        f"{row.seconds:.0f}",
        _dollars(row.dollars),
        _dollars(ratio(row.dollars, row.tenths)) if row.tenths else "",
    )


def _eager(timing: Timing) -> str:
    """Eager's time, marked where launches take most of it."""
    on_gpu = timing.caller is not None and timing.caller.synchronized is not None
    return f"{timing.headline.baseline_ms:.3f}{' launch-bound' if on_gpu and timing.launch_bound else ''}"


def _by_other_clocks(timing: Timing | None) -> str:
    """Speed-up, kernel's and eager's ms by each clock that is not the headline's; where calls are short as a graph."""
    if timing is None or timing.caller is None:
        return "none" if timing and timing.caller_failure else ""
    in_graph = timing.caller.graphed
    told = [f"{each.clock} {each.speedup:.2f}x, {each.ms:.3f} / {each.baseline_ms:.3f}" for each in timing.other_clocks]
    return "; ".join([*told, *([f"graph {in_graph.ms:.4f} ({in_graph.speedup:.2f}x)"] if in_graph else [])])


def _over_compile(timing: Timing | None) -> str:
    if timing is None:
        return ""
    if timing.compiled is None:
        return "none" if timing.compiled_failure else ""
    return f"{timing.compiled.speedup:.2f}x ({timing.compiled.interval.said()})"


def _figures(name: str, found: Figures) -> tuple[str, ...]:
    return (
        f"{name} ({found.tasks})",
        str(found.right),
        str(found.faster),
        f"{found.geomean:.2f}x" if found.geomean else "",
        f"{found.median:.2f}x" if found.median else "",
        *(f"{share:.0%}" for share in found.fast.values()),
        _dollars(found.dollars),
        _dollars(found.per_kernel) if found.right else "",
        _dollars(found.per_tenth) if found.faster else "",
    )


def _dollars(amount: float | None) -> str:
    """The heading names the unit; what is unknown is not called 0."""
    return "?" if amount is None else money(amount).removeprefix("$")
