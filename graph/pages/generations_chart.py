"""An evolution as SVG text: each proposal a mark over its generation, and the best kernel by then."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from markupsafe import Markup, escape

from graph.pages.report_chart import BOTTOM, LEFT, RIGHT, TOP, Axis, drawing, grid, label_at, reference_line
from graph.runs.levels import levels, stair
from graph.runs.record import Proposed, RunRecord

FAILED_Y, DROPPED_Y = BOTTOM + 12, BOTTOM + 30
"""How far above the lower edge those stand that have no speed-up: what failed, and higher what was never judged."""

X = Callable[[Proposed], float]


def generations(record: RunRecord, width: int, height: int = 320) -> Markup:
    """Speed-up over generations: within one, proposals stand in their order; empty without any."""
    search = record.search
    if search is None or not search.proposals:
        return Markup("")
    x = _places(search.proposals, search.generations, width)
    placed = {digest: level.speedup for digest, level in levels(record).items()}
    speedups = [placed[each.kernel] for each in search.proposals if _judged(each, placed)]
    y = Axis(min([1.0, *speedups]) / 1.25, max([1.0, *speedups]) * 1.25, height - BOTTOM - 48, TOP)
    parts = [grid(y, width, lambda value: f"{value:g}x"), reference_line(y, width), _best(record, x, y, width)]
    parts += [_mark(each, record, placed, x(each), y, height) for each in search.proposals]
    parts += [_number(at, search.generations, width, height) for at in range(search.generations)]
    parts.append(label_at((LEFT + width - RIGHT) / 2, height - 6, "generations, proposals in their order", "mid"))
    return drawing(parts, width, height, "Speed-up over the baseline of every proposal, by generation")


def _places(proposals: Sequence[Proposed], count: int, width: int) -> X:
    order: dict[int, list[int]] = {}
    for each in proposals:
        order.setdefault(each.order.generation, []).append(each.order.number)
    step = (width - LEFT - RIGHT) / max(1, count)

    def place(each: Proposed) -> float:
        beside = order[each.order.generation]
        share = (beside.index(each.order.number) + 0.5) / len(beside)
        return LEFT + step * (each.order.generation + 0.1 + 0.8 * share)

    return place


def _best(record: RunRecord, x: X, y: Axis, width: int) -> Markup:
    """The best kernel by then, from the kernel that became it to the next one that did."""
    drawn = stair(record, levels(record))
    points: list[tuple[float, float]] = []
    for each in record.search.proposals if record.search else ():
        if _judged(each, drawn):
            points += [(x(each), points[-1][1])] if points else []
            points.append((x(each), y.at(drawn[each.kernel])))
    if not points:
        return Markup("")
    path = " ".join(f"{px:.1f},{py:.1f}" for px, py in [*points, (float(width - RIGHT), points[-1][1])])
    return Markup('<polyline class="best" points="{}"/>').format(path)


def _mark(each: Proposed, record: RunRecord, placed: Mapping[str, float], x: float, y: Axis, height: int) -> Markup:
    speedup, told = (
        placed[each.kernel] if _judged(each, placed) else None,
        f"{each.order.operator} by {each.order.model}: {each.move or 'no kernel'}",
    )
    kept = any(step.improved and step.candidate == each.kernel for step in record.steps if step.agent == "tester")
    if speedup is not None:
        dot = Markup('<circle class="dot {}" cx="{:.1f}" cy="{:.1f}" r="4.5"><title>{} ({:.2f}x)</title></circle>')
        return dot.format("won" if kept else "kept", x, y.at(speedup), escape(told), speedup)
    verdict = record.verdicts.get(each.kernel) if not each.dropped else None
    if verdict is not None:
        cross = Markup('<path class="fail" d="M{:.1f} {}l8 8m0 -8l-8 8"><title>{}</title></path>')
        return cross.format(x - 4, height - FAILED_Y - 4, escape(f"{told}: {verdict.status}"))
    ring = Markup('<circle class="dot dropped" cx="{:.1f}" cy="{}" r="4"><title>{}</title></circle>')
    return ring.format(x, height - DROPPED_Y, escape(f"{told}: {each.dropped or 'not judged'}"))


def _number(at: int, count: int, width: int, height: int) -> Markup:
    every = max(1, -(-count // 12))
    step = (width - LEFT - RIGHT) / count
    shown = label_at(LEFT + step * (at + 0.5), height - BOTTOM + 16, str(at), "mid tick")
    return shown if at % every == 0 else Markup("")


def _judged(each: Proposed, placed: Mapping[str, float]) -> bool:
    return not each.dropped and each.kernel in placed
