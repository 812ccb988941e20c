"""What an ablation's folder holds beside its runs: the data, the picture and the page."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from markupsafe import Markup

from graph.pages.charts import Axis, drawing, label_at
from graph.pages.report import filled_in
from graph.runs.ablation import Ablation, Point, Schedule, schedule_of
from graph.runs.folder import RunFolder, replace_file
from graph.runs.record import RunRecord
from graph.runs.suite_record import shapes_of
from harness.judging.roofline_bound import floor_ms
from harness.nouns.device_facts import DeviceFacts
from tools.judges import choose_target


def ablation_of(records: list[RunRecord], folders: Sequence[RunFolder | None] = ()) -> Ablation:
    """The runs of one task as one value; their folders tell what they differ in, and how much was asked."""
    first = records[0]
    timing = next((record.timing for record in records if record.timing), None)
    target = first.candidates and next(iter(first.candidates.values())).target
    facts = choose_target(target or "auto").facts()
    return Ablation(
        task=first.name,
        shapes=shapes_of(first.task),
        created=datetime.now(UTC),
        device=facts.device,
        baseline=timing.baseline if timing else "eager",
        at_best=next(filter(None, (_at_best(record, facts) for record in records)), None),
        schedules=tuple(schedule_of(*each) for each in zip(records, folders or [None] * len(records), strict=True)),
    )


def _at_best(record: RunRecord, facts: DeviceFacts) -> float | None:
    if record.task is None or record.best is None or record.timing is None:
        return None
    return record.timing.baseline_ms / floor_ms(record.task, facts, record.best.verdict)


def write(path: Path, ablation: Ablation) -> None:
    """Put the data, the picture and the page into the folder. Raises `MachineError`."""
    replace_file(path / "ablation.json", ablation.model_dump_json(indent=1) + "\n")
    replace_file(path / "ablation.svg", f"{figure(ablation)}\n")
    replace_file(path / "ablation.html", render(ablation))


def render(ablation: Ablation) -> str:
    """The page: the figure and what stands behind it."""
    speedups = [schedule.best.speedup or 1.0 for schedule in ablation.schedules if schedule.best]
    longest = ablation.at_best or max([1.0, *speedups])
    values = {"ablation": ablation, "figure": figure(ablation), "longest": longest}
    return filled_in("ablation.html.j2", values)


# -- The ablation's figure: the schedules' trajectories side by side over one axis, as a picture that needs no page ---

# One panel a schedule: each judged kernel's speed-up with its interval, the best so far as a stair, kernels that failed
# below the axis, and a shaded ground from where the optimizer saw a profile.


WIDTH, HEIGHT = 1000, 440
LEFT, RIGHT, TOP, BOTTOM, GAP = 66, 14, 78, 102, 26
INSET = 22
"""Free at both ends of a panel."""
LANE = 22
"""Height of the strip below the axis that holds kernels that failed."""
TICK_ROOM = 20

STYLE = """
svg { font: 13px system-ui, "Segoe UI", Roboto, sans-serif; --page: #ffffff; --ink: #1b1f24; --quiet: #5d6673;
  --line: #e3e6ea; --good: #14804a; --bad: #c2352b; --mild: #8a94a1; --gate: #eef4fb; --gateline: #0b6bcb; }
@media (prefers-color-scheme: dark) { svg { --page: #1a1e25; --ink: #e6e9ee; --quiet: #98a2b0; --line: #2c323b;
  --good: #4cc38a; --bad: #ff7b72; --mild: #7d8896; --gate: #1d2a3a; --gateline: #62aef7; } }
text { fill: var(--quiet); } .mid { text-anchor: middle; } .end { text-anchor: end; } .tick { font-size: 12px; }
.name { fill: var(--ink); font-size: 15px; font-weight: 600; } .head { fill: var(--ink); font-size: 14px; }
.top { fill: var(--good); font-size: 15px; font-weight: 700; } .gatename { fill: var(--gateline); font-size: 12px; }
.page { fill: var(--page); } .frame { fill: none; stroke: var(--line); } .grid { stroke: var(--line); }
.one { stroke: var(--mild); stroke-dasharray: 5 4; } .gate { fill: var(--gate); }
.gateline { stroke: var(--gateline); stroke-width: 1.5; stroke-dasharray: 3 3; }
.best { fill: none; stroke: var(--good); stroke-width: 2; opacity: .6; } .bar { stroke-width: 2; }
.bar.won { stroke: var(--good); } .bar.kept { stroke: var(--mild); } .dot { stroke: var(--page); stroke-width: 1.5; }
.dot.won { fill: var(--good); } .dot.kept { fill: var(--mild); }
.fail { stroke: var(--bad); stroke-width: 2; fill: none; }
"""


class Panel:
    """One schedule's part of the picture. `start` and `end` are its frame's left and right pixel.

    `apart`: the best speed-ups of the schedules differ by more than noise; where they do not, none of them is green.
    """

    def __init__(self, schedule: Schedule, y: Axis, start: float, end: float, most: int, *, apart: bool) -> None:
        self.schedule, self.y, self.apart = schedule, y, apart
        self.start, self.end = start, end
        self._step = (end - start - 2 * INSET) / max(1, most - 1)
        self._floor = HEIGHT - BOTTOM

    def parts(self) -> list[Markup]:
        """Everything in and around the frame."""
        points = self.schedule.points
        return [
            *self._gate(),
            *self._grid(),
            *self._words(),
            self._stair(),
            *(self._point(index, point) for index, point in enumerate(points)),
            *self._ticks(),
        ]

    def _x(self, index: float) -> float:
        return self.start + INSET + self._step * index

    def _gate(self) -> list[Markup]:
        """The ground from the first kernel on that was written with a profile at hand."""
        first = next((index for index, point in enumerate(self.schedule.points) if point.profiled), None)
        if first is None:
            return []
        x = self._x(first - 0.5) if first else self.start
        ground = Markup('<rect class="gate" x="{:.1f}" y="{}" width="{:.1f}" height="{}"/>')
        line = Markup('<line class="gateline" x1="{0:.1f}" x2="{0:.1f}" y1="{1}" y2="{2}"/>')
        return [
            ground.format(x, TOP, self.end - x, self._floor - TOP + LANE),
            line.format(x, TOP, self._floor + LANE),
        ]

    def _grid(self) -> list[Markup]:
        frame = Markup('<rect class="frame" x="{:.1f}" y="{}" width="{:.1f}" height="{}"/>')
        line = Markup('<line class="{}" x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}"/>')
        parts = [frame.format(self.start, TOP, self.end - self.start, self._floor - TOP + LANE)]
        for tick in self.y.ticks():
            at = self.y.at(tick)
            parts.append(line.format("one" if tick == 1.0 else "grid", self.start, self.end, at, at))
        return [*parts, line.format("frame", self.start, self.end, self._floor, self._floor)]

    def _words(self) -> list[Markup]:
        schedule = self.schedule
        seen = f"{schedule.profiles} profiles read" if schedule.profiles != 1 else "1 profile read"
        gate = seen if schedule.profiles else f"gate not reached: the run ended at depth {schedule.depth}"
        name = schedule.named[:1].upper() + schedule.named[1:]
        parts = [
            label_at(self.start, TOP - 26, name, "head"),
            label_at(self.start, TOP - 9, gate, "gatename"),
        ]
        best = schedule.best
        if best is not None and best.best is not None:
            parts.append(label_at(self.end, TOP - 12, f"{best.best:.2f}x", "top end" if self.apart else "name end"))
        return parts

    def _stair(self) -> Markup:
        """The best speed-up so far, held until the next kernel beats it."""
        corners: list[tuple[float, float]] = []
        for index, point in enumerate(self.schedule.points):
            if point.best is not None:
                if corners:
                    corners.append((self._x(index), corners[-1][1]))
                corners.append((self._x(index), self.y.at(point.best)))
        if not corners:
            return Markup("")
        corners.append((self.end, corners[-1][1]))
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
        return Markup('<polyline class="best" points="{}"/>').format(path)

    def _point(self, index: int, point: Point) -> Markup:
        x, told = self._x(index), f"depth {point.depth}: {point.move}: {point.status}"
        if point.speedup is None or point.low is None or point.high is None:
            cross = Markup('<path class="fail" d="M{:.1f} {:.1f}l8 8m0 -8l-8 8"><title>{}</title></path>')
            return cross.format(x - 4, self._floor + LANE / 2 - 4, told)
        kind = "won" if point.improved else "kept"
        bar = Markup('<line class="bar {}" x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}"/>')
        dot = Markup('<circle class="dot {}" cx="{:.1f}" cy="{:.1f}" r="5"><title>{} ({:.2f}x)</title></circle>')
        return bar.format(kind, x, x, self.y.at(point.low), self.y.at(point.high)) + dot.format(
            kind, x, self.y.at(point.speedup), told, point.speedup
        )

    def _ticks(self) -> list[Markup]:
        """The depth under the first kernel of each, where there is room for its digits."""
        parts, last = [], -1.0 * TICK_ROOM
        for index, (before, point) in enumerate(pairwise([None, *self.schedule.points])):
            assert point is not None
            x = self._x(index)
            if (before is None or before.depth != point.depth) and x - last >= TICK_ROOM:
                parts.append(label_at(x, self._floor + LANE + 17, str(point.depth), "mid tick"))
                last = x
        return [
            *parts,
            label_at((self.start + self.end) / 2, self._floor + LANE + 36, "kernels as judged, by depth", "mid tick"),
        ]


def figure(ablation: Ablation) -> Markup:
    """The whole picture, with its own colors for light and dark."""
    schedules = ablation.schedules
    y = _axis(schedules)
    width = (WIDTH - LEFT - RIGHT - GAP * (len(schedules) - 1)) / max(1, len(schedules))
    most = max((len(schedule.points) for schedule in schedules), default=1)
    parts = [
        Markup("<style>{}</style>").format(Markup(STYLE)),
        Markup('<rect class="page" width="{}" height="{}"/>').format(WIDTH, HEIGHT),
        label_at(LEFT, 24, f"{ablation.task} ({ablation.shapes}) on {ablation.device}", "name"),
        *_scale(y, ablation.baseline),
        *_legend(),
    ]
    apart = len(schedules) == 1 or ablation.told_apart
    for index, schedule in enumerate(schedules):
        start = LEFT + index * (width + GAP)
        parts += Panel(schedule, y, start, start + width, most, apart=apart).parts()
    if any(point.speedup is None for schedule in schedules for point in schedule.points):
        parts.append(label_at(LEFT - 8, HEIGHT - BOTTOM + LANE / 2 + 4, "failed", "end tick"))
    return drawing(parts, WIDTH, HEIGHT, f"Speed-up over {ablation.baseline} by {ablation.column}", alone=True)


def _axis(schedules: Sequence[Schedule]) -> Axis:
    values = [1.0]
    for point in (point for schedule in schedules for point in schedule.points):
        values += [value for value in (point.low, point.speedup, point.high) if value is not None]
    return Axis(min(values) / 1.2, max(values) * 1.2, HEIGHT - BOTTOM, TOP)


def _scale(y: Axis, baseline: str) -> list[Markup]:
    """The numbers left of the first panel; at 1 stands what the speed-up is over."""
    return [
        label_at(LEFT - 8, y.at(tick) + 4, f"{baseline} 1x" if tick == 1.0 else f"{tick:g}x", "end tick")
        for tick in y.ticks()
    ]


def _legend() -> list[Markup]:
    """What the signs mean, below the panels."""
    y = HEIGHT - 14
    dot = Markup('<circle class="dot {}" cx="{}" cy="{}" r="5"/>')
    ground = Markup('<rect class="gate" x="{0}" y="{1}" width="16" height="12"/>')
    return [
        dot.format("won", LEFT + 6, y - 4),
        label_at(LEFT + 18, y, "became the best", "tick"),
        dot.format("kept", LEFT + 146, y - 4),
        label_at(LEFT + 158, y, "right, not faster beyond the noise", "tick"),
        Markup('<path class="fail" d="M{} {}l8 8m0 -8l-8 8"/>').format(LEFT + 378, y - 8),
        label_at(LEFT + 394, y, "failed", "tick"),
        ground.format(LEFT + 452, y - 10),
        label_at(LEFT + 474, y, "written with a profile at hand", "tick"),
    ]
