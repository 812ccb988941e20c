"""The benchmark's tables: for the terminal, and as a part of docs/suites.md."""

from __future__ import annotations

from statistics import geometric_mean

from bench.model import BenchResult, ExampleResult, Limit
from graph.runs.tables import Sheet, markdown

BUSY_LOAD = 1.0
"""Runnable processes beside the benchmark, from which on its numbers are not those of a quiet machine."""


def sheets(result: BenchResult) -> tuple[Sheet, ...]:
    """All tables of a result."""
    cuda = result.cuda_phases or {}
    return (
        Sheet(
            "Speed-up over eager PyTorch",
            (
                "example",
                "shapes",
                "speed-up",
                "95 % interval",
                "by the judge",
                "as called",
                "over torch.compile",
                "last move kept",
                "kernel",
                "eager",
                "roof",
                "judged",
                "run",
                "asked",
            ),
            tuple(_example(example) for example in result.examples),
        ),
        Sheet(
            "Speed and size",
            ("what", "measured", "allowed", ""),
            tuple(_limit(limit) for limit in result.limits),
        ),
        Sheet(
            f"From a kernel's source to its verdict, by phase (medians over {result.verdicts} new kernels)",
            ("phase", "seconds"),
            _seconds(result.phases),
        ),
        *((Sheet("The same for a CuTe GEMM on the GPU", ("phase", "seconds"), _seconds(cuda)),) if cuda else ()),
    )


def _without(sheet: Sheet) -> list[str]:
    """A table of the page, without the columns that only the terminal needs."""
    shown = [place for place, name in enumerate(sheet.head) if name not in ("by the judge", "judged", "run")]
    return telling(tuple(sheet.head[place] for place in shown), [tuple(row[p] for p in shown) for row in sheet.rows])


def telling(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    """A table of the columns that tell its rows apart, below a sentence with what is the same in all of them.

    Empty and zero cells are no news; the last column always stays.
    """
    same = [place for place in range(len(head) - 1) if len({row[place] for row in rows}) == 1 and len(rows) > 1]
    kept = [
        place
        for place in range(len(head))
        if place not in same and (place == len(head) - 1 or {row[place] for row in rows} - {"", "0.00"})
    ]
    shared = [f"{head[place]} {rows[0][place]}" for place in same if rows[0][place] not in ("", "0.00")]
    table = markdown([head[place] for place in kept], [[row[place] for place in kept] for row in rows])
    return [*([f"In every row: {', '.join(shared)}."] if shared else []), table]


def _seconds(phases: dict[str, float]) -> tuple[tuple[str, ...], ...]:
    return tuple((name, f"{seconds:.2f}") for name, seconds in phases.items())


def measured_on_a_processor(result: BenchResult) -> list[str]:
    """The benchmark's part of docs/suites.md, as paragraphs."""
    machine = result.machine
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    parts = [
        "## On a processor",
        "`python -m bench.run --write`",
        f"- Machine: {machine.cpu}, {machine.cores} cores, {machine.memory_gib} GiB, {machine.system}\n"
        f"- Measured ceilings: {result.peak_gb_s:.1f} GB/s, {result.peak_gflop_s:.0f} GFLOP/s\n"
        f"- Versions: Python {machine.python}, {versions}\n"
        f"- When: {result.measured_at:%Y-%m-%d %H:%M} UTC, load {result.load:.1f} before the start",
    ]
    if result.load > BUSY_LOAD:
        parts.append(
            "The machine was busy with other work while this was measured: times are too long, and speed-ups off."
        )
    for sheet in sheets(result):
        parts += [f"### {sheet.title}", *_without(sheet)]
    parts.append(_means(result.examples))
    reasons: dict[str, list[str]] = {}
    for example in result.examples:
        reasons.setdefault(example.stop_reason, []).append(example.name)
    endings = "\n".join(f"- {', '.join(names)}: {reason}" for reason, names in reasons.items())
    return [*parts, "### Why each run ended", endings]


def _example(example: ExampleResult) -> tuple[str, ...]:
    timing = example.timing
    run = f"{example.seconds:.0f} s"
    asked = "" if example.wanted is None else f"{example.wanted:g}x"
    if timing is None:
        empty = ("",) * 8
        return (example.name, example.shapes, "no kernel", *empty, str(example.kernels_judged), run, asked)
    interval = f"{timing.headline.interval.low:.2f} to {timing.headline.interval.high:.2f}"
    if example.wanted is not None:
        asked += " met" if timing.wins and timing.headline.speedup >= example.wanted else " missed"
    return (
        example.name,
        example.shapes,
        f"{timing.headline.speedup:.2f}x",
        interval,
        f"{timing.speedup:.2f}x",
        "" if timing.caller is None else f"{timing.caller.back_to_back.speedup:.2f}x",
        "" if example.over_compiled is None else f"{example.over_compiled:.2f}x",
        example.move,
        f"{timing.headline.ms:.3g} ms",
        f"{timing.headline.baseline_ms:.3g} ms",
        "" if example.share_of_roof is None else f"{example.share_of_roof:.0%}",
        str(example.kernels_judged),
        run,
        asked,
    )


def _means(examples: tuple[ExampleResult, ...]) -> str:
    """The examples together, where they were timed."""
    over_eager = [each.timing.headline.speedup for each in examples if each.timing is not None]
    over_compiled = [each.over_compiled for each in examples if each.over_compiled is not None]
    sides = (("eager", over_eager), ("torch.compile", over_compiled))
    means = (f"{geometric_mean(over):.2f}x over {side} ({len(over)})" for side, over in sides if over)
    return f"Geometric means of the examples: {', '.join(means) or 'none'}."


def _limit(limit: Limit) -> tuple[str, ...]:
    digits = 2 if limit.unit == "s" else 0
    measured, allowed = f"{limit.measured:.{digits}f} {limit.unit}", f"{limit.allowed:g} {limit.unit}"
    return (limit.name, measured, allowed, "met" if limit.met else "missed")
