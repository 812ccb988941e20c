"""The rounds of a timing as a picture: a mark a round for either side, over one axis of milliseconds."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from markupsafe import Markup

from graph.pages.report_chart import Axis, drawing, label_at
from harness.nouns.verdict import Timing

LEFT, RIGHT, ROW, TOP, BOTTOM = 74, 20, 44, 8, 26


def samples_chart(timing: Timing | None, width: int) -> Markup:
    """Empty where the rounds were not kept."""
    if timing is None or timing.samples is None or not timing.samples.candidate_ms:
        return Markup("")
    rows = ((timing.baseline, timing.samples.baseline_ms, "kept"), ("kernel", timing.samples.candidate_ms, "won"))
    every = [each for _, values, _ in rows for each in values if each > 0]
    if not every:
        return Markup("")
    x = Axis(min(every) / 1.1, max(every) * 1.1, LEFT, width - RIGHT)
    height = TOP + ROW * len(rows) + BOTTOM
    parts = _scale(x, height)
    for index, (name, values, kind) in enumerate(rows):
        parts += _row(x, TOP + ROW * index, name, values, kind)
    return drawing(parts, width, height, f"Milliseconds a call in each of {timing.rounds} rounds. {_said(rows)}")


def _scale(x: Axis, height: int) -> list[Markup]:
    line = Markup('<line class="grid" x1="{0:.1f}" x2="{0:.1f}" y1="{1}" y2="{2}"/>')
    parts = []
    for tick in x.ticks():
        parts.append(line.format(x.at(tick), TOP, height - BOTTOM))
        parts.append(label_at(x.at(tick), height - 8, f"{tick:.3g} ms", "mid tick"))
    return parts


def _row(x: Axis, top: float, name: str, values: Sequence[float], kind: str) -> list[Markup]:
    mark = Markup('<circle class="round {}" cx="{:.1f}" cy="{:.1f}" r="3.5"/>')
    middle = Markup('<line class="median {0}" x1="{1:.1f}" x2="{1:.1f}" y1="{2}" y2="{3}"/>')
    found = x.at(median(values))
    # Rounds lie below each other in three lanes by turns, so that equal ones are seen.
    marks = [mark.format(kind, x.at(value), top + 14 + 8 * (at % 3)) for at, value in enumerate(values) if value > 0]
    return [label_at(LEFT - 10, top + 26, name, "end tick"), *marks, middle.format(kind, found, top + 6, top + 38)]


def _said(rows: Sequence[tuple[str, Sequence[float], str]]) -> str:
    return " ".join(
        f"{name}: {min(values):.3g} to {max(values):.3g} ms, median {median(values):.3g}." for name, values, _ in rows
    )
