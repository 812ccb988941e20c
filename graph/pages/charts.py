"""The report's plots as SVG text: speed-up over the steps of a run, and the roofline.

Colors come from CSS classes so that one drawing serves light and dark pages. Every text goes through `escape`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from markupsafe import Markup, escape

from graph.runs.record import Level, Proposed, RunRecord, levels, stair
from harness.nouns.profile import Profile
from harness.nouns.verdict import Timing
from nodes.state import Step

LEFT, RIGHT, TOP, BOTTOM = 54, 16, 16, 44
LABEL_WIDE, LABEL_HIGH = 58, 13
"""Room that a label of the roofline takes, in pixels."""


@dataclass(frozen=True)
class Axis:
    """Maps values to pixels, in a logarithmic scale. `low` and `high` are above 0."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """The pixel of a value, kept inside the axis."""
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return self.start + min(1.0, max(0.0, share)) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Round values inside the axis: powers of ten, with 2 and 5 between where there is room."""
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        for factors in ((1.0, 1.5, 2.0, 3.0, 5.0, 7.0), (1.0, 2.0, 5.0), (1.0,)):
            values = [factor * 10.0**power for power in range(first, last + 1) for factor in factors]
            inside = [value for value in values if self.low <= value <= self.high]
            if len(inside) <= 7:
                return inside
        return inside


def trajectory(record: RunRecord, width: int, height: int = 300) -> Markup:
    """Speed-up over the judged kernels, all on one scale (see `levels`), with intervals, and the best as a stair."""
    judged = [step for step in record.steps if step.agent == "tester" and step.status is not None]
    if not judged:
        return Markup("")
    found = levels(record)
    y = _speedup_axis([found[step.candidate] for step in judged if step.candidate in found], height)
    x = _positions(len(judged), width)
    drawn = stair(record, found)
    way = _stair(judged, drawn, x, y, width)
    parts = [grid(y, width, lambda value: f"{value:g}x"), reference_line(y, width), way]
    for at, step in enumerate(judged):
        level, won = found.get(step.candidate or ""), step.improved or step.candidate in drawn
        parts.append(_judged(level, step, x(at), y, height, won=won))
    parts.append(_depth_labels(judged, x, height))
    parts.append(
        label_at((LEFT + width - RIGHT) / 2, height - 6, "kernels in the order they were judged, by depth", "mid")
    )
    return drawing(parts, width, height, "Speed-up over the baseline for each judged kernel")


def roofline(profiles: Iterable[tuple[str, Profile]], width: int, height: int = 300) -> Markup:
    """Achieved rate over arithmetic intensity under the machine's roof; one dot a profile, labelled by its depth."""
    shown = [(label, profile, _intensity(profile)) for label, profile in profiles]
    if not all(intensity > 0 for _, _, intensity in shown):
        return _bandwidths([(label, profile) for label, profile, _ in shown], width)
    if not shown:
        return Markup("")
    roof = shown[-1][1]
    ridge = roof.peak_gflop_s / roof.peak_gb_s
    intensities = [intensity for _, _, intensity in shown]
    rates = [profile.achieved_gflop_s for _, profile, _ in shown]
    x = Axis(min(*intensities, ridge) / 4, max(*intensities, ridge) * 4, LEFT, width - RIGHT)
    y = Axis(min(*rates, roof.peak_gb_s * x.low) / 1.5, roof.peak_gflop_s * 2, height - BOTTOM, TOP)
    parts = [grid(y, width, lambda value: f"{value:g}"), _roof(roof, ridge, x, y)]
    parts += [label_at(x.at(tick), height - BOTTOM + 16, f"{tick:g}", "mid tick") for tick in x.ticks()]
    places = [(label, x.at(at), y.at(profile.achieved_gflop_s)) for label, profile, at in shown]
    parts += [_way([(px, py) for _, px, py in places]), *_dots(places)]
    parts.append(_caption("FLOP per byte moved; vertical: GFLOP/s", width, height))
    ended = f"{roof.achieved_gflop_s:.3g} of {roof.peak_gflop_s:.3g} GFLOP/s, {roof.roof_said}"
    return drawing(parts, width, height, f"Roofline: the way from {shown[0][0]} to {shown[-1][0]}, where it is {ended}")


def _bandwidths(profiles: list[tuple[str, Profile]], width: int) -> Markup:
    """Bars of the achieved share of the memory bandwidth, for kernels whose FLOPs nobody counted."""
    row, height = 26, 26 * len(profiles) + 14
    room = width - 2 * LEFT - RIGHT
    parts: list[Markup] = []
    bar = Markup('<rect class="{}" x="{}" y="{}" width="{:.1f}" height="14" rx="3"/>')
    for index, (label, profile) in enumerate(profiles):
        y, share = 8 + index * row, min(1.0, profile.achieved_gb_s / profile.peak_gb_s)
        parts += [bar.format("empty", LEFT, y, room), bar.format("full", LEFT, y, room * share)]
        parts.append(label_at(LEFT - 8, y + 11, label, "end tick"))
        parts.append(label_at(LEFT + room + 8, y + 11, f"{profile.achieved_gb_s:.1f} GB/s", "tick"))
    return drawing(parts, width, height, "Achieved memory bandwidth of each profiled kernel")


def _intensity(profile: Profile) -> float:
    return profile.achieved_gflop_s / profile.achieved_gb_s if profile.achieved_gb_s > 0 else 0.0


def _speedup_axis(found: list[Level], height: int) -> Axis:
    values = [1.0, *(value for each in found for value in (each.interval.low, each.speedup, each.interval.high))]
    return Axis(min(values) / 1.25, max(values) * 1.25, height - BOTTOM, TOP)


def _positions(count: int, width: int) -> Callable[[int], float]:
    room = width - LEFT - RIGHT
    return lambda index: LEFT + room * (index + 0.5) / count


def grid(y: Axis, width: int, label: Callable[[float], str]) -> Markup:
    """A line and its value at each of the axis' ticks."""
    line = Markup('<line class="grid" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>')
    parts = []
    for tick in y.ticks():
        at = y.at(tick)
        parts += [line.format(LEFT, width - RIGHT, at, at), label_at(LEFT - 8, at + 4, label(tick), "end tick")]
    return Markup("").join(parts)


def reference_line(y: Axis, width: int) -> Markup:
    """Where a kernel is as fast as the baseline."""
    at = y.at(1.0)
    line = Markup('<line class="one" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>').format(LEFT, width - RIGHT, at, at)
    return line + label_at(width - RIGHT, at - 5, "baseline", "end tick")


def _stair(judged: list[Step], drawn: dict[str, float], x: Callable[[int], float], y: Axis, width: int) -> Markup:
    """The best kernel's level, held until the next one beats it."""
    points: list[tuple[float, float]] = []
    for index, step in enumerate(judged):
        if step.candidate not in drawn:
            continue
        if points:
            points.append((x(index), points[-1][1]))
        points.append((x(index), y.at(drawn[step.candidate])))
    if not points:
        return Markup("")
    points.append((float(width - RIGHT), points[-1][1]))
    path = " ".join(f"{px:.1f},{py:.1f}" for px, py in points)
    return Markup('<polyline class="best" points="{}"/>').format(path)


def _judged(level: Level | None, step: Step, x: float, y: Axis, height: int, *, won: bool) -> Markup:
    title = escape(f"depth {step.depth}: {step.move or 'first draft'}: {step.status}")
    if level is None:
        base = height - BOTTOM - 10
        cross = Markup('<path class="fail" d="M{:.1f} {}l8 8m0 -8l-8 8"><title>{}</title></path>')
        return cross.format(x - 4, base - 4, title)
    low, median, high = level.interval.low, level.speedup, level.interval.high
    kind = "won" if won else "kept"
    bar = Markup('<line class="bar {}" x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}"/>')
    dot = Markup('<circle class="dot {}" cx="{:.1f}" cy="{:.1f}" r="4.5"><title>{} ({:.2f}x)</title></circle>')
    return bar.format(kind, x, x, y.at(low), y.at(high)) + dot.format(kind, x, y.at(median), title, median)


def _depth_labels(judged: list[Step], x: Callable[[int], float], height: int) -> Markup:
    every = max(1, math.ceil(len(judged) / 12))
    shown = [(i, step) for i, step in enumerate(judged) if i % every == 0]
    return Markup("").join(label_at(x(i), height - BOTTOM + 16, str(step.depth), "mid tick") for i, step in shown)


def _roof(roof: Profile, ridge: float, x: Axis, y: Axis) -> Markup:
    slope_end = (x.at(ridge), y.at(roof.peak_gflop_s))
    points = [(x.at(x.low), y.at(roof.peak_gb_s * x.low)), slope_end, (x.at(x.high), slope_end[1])]
    path = " ".join(f"{px:.1f},{py:.1f}" for px, py in points)
    line = Markup('<polyline class="roof" points="{}"/>').format(path)
    peak = label_at(x.at(x.high), slope_end[1] - 6, f"{roof.peak_gflop_s:,.0f} GFLOP/s", "end tick")
    return line + peak + label_at(LEFT + 8, TOP + 12, f"memory: {roof.peak_gb_s:,.1f} GB/s", "tick")


def _way(places: list[tuple[float, float]]) -> Markup:
    """The kernels from the first profile to the last, joined."""
    path = " ".join(f"{px:.1f},{py:.1f}" for px, py in places)
    return Markup('<polyline class="way" points="{}"/>').format(path) if len(places) > 1 else Markup("")


def _dots(places: list[tuple[str, float, float]]) -> list[Markup]:
    """A dot a profile; a label where none stands already, the last one's always."""
    parts: list[Markup] = []
    taken: list[tuple[float, float]] = []
    for index, (label, px, py) in reversed(list(enumerate(places))):
        kind = "won" if index == len(places) - 1 else "kept"
        dot = Markup('<circle class="dot {}" cx="{:.1f}" cy="{:.1f}" r="5"><title>{}</title></circle>')
        parts.insert(0, dot.format(kind, px, py, label))
        if all(abs(px - tx) > LABEL_WIDE or abs(py - ty) > LABEL_HIGH for tx, ty in taken):
            taken.append((px, py))
            parts.append(label_at(px + 9, py + 4, label, "tick"))
    return parts


def _caption(text: str, width: int, height: int) -> Markup:
    return label_at((LEFT + width - RIGHT) / 2, height - 6, text, "mid")


def label_at(x: float, y: float, text: str, kind: str) -> Markup:
    """A text of a CSS class."""
    return Markup('<text class="{}" x="{:.1f}" y="{:.1f}">{}</text>').format(kind, x, y, text)


def drawing(parts: Iterable[Markup], width: int, height: int, label: str, *, alone: bool = False) -> Markup:
    """The parts as one picture; `label` is what a screen reader says. `alone` makes it a file of its own."""
    space = Markup(' xmlns="http://www.w3.org/2000/svg"') if alone else ""
    head = Markup('<svg{} viewBox="0 0 {} {}" role="img" aria-label="{}">').format(space, width, height, label)
    return head + Markup("").join(parts) + Markup("</svg>")


# -- The rounds of a timing as a picture: a mark a round for either side, over one axis of milliseconds ---------------


_LEFT, _RIGHT, ROW, _TOP, _BOTTOM = 74, 20, 44, 8, 26


def samples_chart(timing: Timing | None, width: int) -> Markup:
    """Empty where the rounds were not kept."""
    if timing is None or timing.samples is None or not timing.samples.candidate_ms:
        return Markup("")
    rows = ((timing.baseline, timing.samples.baseline_ms, "kept"), ("kernel", timing.samples.candidate_ms, "won"))
    every = [each for _, values, _ in rows for each in values if each > 0]
    if not every:
        return Markup("")
    x = Axis(min(every) / 1.1, max(every) * 1.1, _LEFT, width - _RIGHT)
    height = _TOP + ROW * len(rows) + _BOTTOM
    parts = _scale(x, height)
    for index, (name, values, kind) in enumerate(rows):
        parts += _row(x, _TOP + ROW * index, name, values, kind)
    return drawing(parts, width, height, f"Milliseconds a call in each of {timing.rounds} rounds. {_said(rows)}")


def _scale(x: Axis, height: int) -> list[Markup]:
    line = Markup('<line class="grid" x1="{0:.1f}" x2="{0:.1f}" y1="{1}" y2="{2}"/>')
    parts = []
    for tick in x.ticks():
        parts.append(line.format(x.at(tick), _TOP, height - _BOTTOM))
        parts.append(label_at(x.at(tick), height - 8, f"{tick:.3g} ms", "mid tick"))
    return parts


def _row(x: Axis, top: float, name: str, values: Sequence[float], kind: str) -> list[Markup]:
    mark = Markup('<circle class="round {}" cx="{:.1f}" cy="{:.1f}" r="3.5"/>')
    middle = Markup('<line class="median {0}" x1="{1:.1f}" x2="{1:.1f}" y1="{2}" y2="{3}"/>')
    found = x.at(median(values))
    # Rounds lie below each other in three lanes by turns, so that equal ones are seen.
    marks = [mark.format(kind, x.at(value), top + 14 + 8 * (at % 3)) for at, value in enumerate(values) if value > 0]
    return [label_at(_LEFT - 10, top + 26, name, "end tick"), *marks, middle.format(kind, found, top + 6, top + 38)]


def _said(rows: Sequence[tuple[str, Sequence[float], str]]) -> str:
    return " ".join(
        f"{name}: {min(values):.3g} to {max(values):.3g} ms, median {median(values):.3g}." for name, values, _ in rows
    )


# -- An evolution as SVG text: each proposal a mark over its generation, and the best kernel by then ------------------


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
    speedups = [placed[each.kernel] for each in search.proposals if _judged_steps(each, placed)]
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
        if _judged_steps(each, drawn):
            points += [(x(each), points[-1][1])] if points else []
            points.append((x(each), y.at(drawn[each.kernel])))
    if not points:
        return Markup("")
    path = " ".join(f"{px:.1f},{py:.1f}" for px, py in [*points, (float(width - RIGHT), points[-1][1])])
    return Markup('<polyline class="best" points="{}"/>').format(path)


def _mark(each: Proposed, record: RunRecord, placed: Mapping[str, float], x: float, y: Axis, height: int) -> Markup:
    speedup, told = (
        placed[each.kernel] if _judged_steps(each, placed) else None,
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


def _judged_steps(each: Proposed, placed: Mapping[str, float]) -> bool:
    return not each.dropped and each.kernel in placed
