"""Two runs beside each other as a page: verdicts, settings that differ, and the kernels' difference."""

from __future__ import annotations

from graph.pages.charts import trajectory
from graph.pages.kernel_changes import MOST_LINES, side_by_side, within
from graph.pages.report import WIDE, filled_in
from graph.runs.comparing import Comparison
from graph.runs.record import RunRecord


def render(comparison: Comparison, names: tuple[str, str]) -> str:
    """The page; `names` are what the runs are called on it."""
    first, second = comparison.first, comparison.second
    pairs = (
        side_by_side(first.best.candidate.source, second.best.candidate.source) if first.best and second.best else []
    )
    return filled_in(
        "compare.html.j2",
        {
            "comparison": comparison,
            "headline": headline(comparison),
            "names": names,
            "facts": facts(comparison),
            "hunks": within(pairs, MOST_LINES),
            "left": max(0, sum(map(len, pairs)) - MOST_LINES),
            "plots": [(name, trajectory(run, WIDE // 2)) for name, run in zip(names, (first, second), strict=True)],
        },
    )


def headline(comparison: Comparison) -> str:
    """What it comes to, in a sentence."""
    ratio = comparison.ratio
    if ratio.speedup is None or ratio.basis == "same kernel":
        return comparison.task_differs or "No speed-up of one over the other."
    if ratio.interval is None:
        return f"The second kernel is {ratio.speedup:.2f}x as fast as the first."
    sure = 99.5 if ratio.basis == "same rounds" else 95
    low, high = ratio.interval.low, ratio.interval.high
    told = "" if low > 1 or high < 1 else ": not told apart"
    words = f"The second kernel is {ratio.speedup:.2f}x as fast as the first"
    return f"{words} ({sure:g} % interval {ratio.interval.said()}){told}."


def facts(comparison: Comparison) -> list[tuple[str, tuple[str, str]]]:
    """What is told of each run, side by side."""
    first, second = dict(_facts(comparison.first)), dict(_facts(comparison.second))
    return [(name, (value, second[name])) for name, value in first.items()]


def _facts(run: RunRecord) -> list[tuple[str, str]]:
    timing, best = run.timing, run.best
    last = best.verdict if best else next(reversed(run.verdicts.values()), None)
    return [
        ("task", run.name),
        ("outcome", run.outcome),
        ("verdict", f"{last.status}{': ' + last.check if last.check else ''}" if last else "none"),
        ("speed-up", f"{timing.headline.speedup:.2f}x over {timing.baseline}" if timing else ""),
        ("95 % interval", timing.headline.interval.said() if timing else ""),
        ("kernel ms", f"{timing.headline.ms:.4g}" if timing else ""),
        ("baseline ms", f"{timing.headline.baseline_ms:.4g}" if timing else ""),
        ("measured", f"{timing.headline.whose}, {timing.headline.rounds} rounds" if timing else ""),
        (
            "by other clocks",
            "; ".join(f"{each.speedup:.2f}x {each.whose}" for each in timing.other_clocks) if timing else "",
        ),
        ("kernel", best.candidate.digest if best else ""),
        ("by", best.candidate.author if best else ""),
        ("depth", str(max((step.depth for step in run.steps), default=0))),
        ("kernels judged", str(len(run.verdicts))),
        ("seconds", f"{run.seconds:.0f}"),
        ("tokens", f"{run.usage.tokens:,}"),
        ("cost", run.usage.cost),
        ("ended because", run.stop_reason),
    ]
