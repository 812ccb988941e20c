"""Which regions of a model are worth a kernel: what each takes now, what it would take at best, who can write it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from graph.model.joining import joined
from graph.model.partition import Kind, Region, regions_of
from graph.model.window import Window
from graph.model.writers import Writers
from harness.judging.roofline_bound import exact_gflop_s, products_of
from harness.nouns.aten import FREE
from harness.nouns.candidate import TargetName
from harness.nouns.capture import Capture, Missed
from harness.nouns.device_facts import DeviceFacts
from harness.nouns.devices import on_gpu
from harness.nouns.frozen import Frozen, Label, SanitizedText
from harness.nouns.verdict import Precision

LEAST_SHARE = 0.02
"""A region whose whole gain could not save this share of the model's time is left as it is."""

Writer = Literal["playbook", "language model"]


class Place(Frozen):
    """Where a region stands: operations `start` to `end` (excluded) of the part at that index; the modules there."""

    part: int
    start: int
    end: int
    modules: tuple[Label, ...]


class PlannedRegion(Frozen):
    """Windows of one canonical form, all of which one kernel serves. Times are of all places together.

    `between_ms` is the region's share of the time that passes between operations; `floor_ms` is what its bytes and
    FLOPs take at the device's measured rates.
    """

    digest: str
    kind: Kind
    operations: tuple[str, ...]
    places: tuple[Place, ...] = Field(min_length=1)
    writer: Writer
    recipe: str
    ms: float
    between_ms: float
    floor_ms: float

    @property
    def now_ms(self) -> float:
        """What a kernel in its place can save some of."""
        return self.ms + self.between_ms

    @property
    def gain_ms(self) -> float:
        """What would be saved if every place took the floor's time."""
        return max(0.0, self.now_ms - self.floor_ms)

    @property
    def name(self) -> str:
        """For tables and folders: what it is, and its digest."""
        return f"{self.kind}-{self.digest}"


class Plan(Frozen):
    """A model's regions, those first that can gain most, and what stays as it is.

    `whole_ms` is one call as its operations were clocked: eager, or as Inductor compiles it, where `eager_ms` tells
    what eager takes; `uncompiled` says why it is not compiled where that was asked. `hindered` maps what keeps an
    operation out of every region to the operations' time; `views_ms` is that of looks at memory, `between_ms` what
    passes between operations.
    """

    name: Label
    target: TargetName
    whole_ms: float
    eager_ms: float | None = None
    uncompiled: SanitizedText = ""
    regions: tuple[PlannedRegion, ...]
    missed: tuple[Missed, ...] = ()
    hindered: dict[str, float] = Field(default_factory=dict)
    views_ms: float = 0.0
    between_ms: float = 0.0
    memory_bytes: int = 0
    captured_parts: tuple[SanitizedText, ...] = ()

    def share(self, region: PlannedRegion) -> float:
        """The part of a call's time that the region takes."""
        return region.now_ms / self.whole_ms if self.whole_ms else 0.0

    def bound(self, regions: Iterable[PlannedRegion]) -> float:
        """The speed-up of the whole if these regions took their floors' time, by Amdahl's law."""
        saved = sum(region.gain_ms for region in regions)
        return self.whole_ms / max(self.whole_ms - saved, 1e-9) if saved else 1.0

    def worthwhile(self, *, playbook_alone: bool, least: float = LEAST_SHARE) -> tuple[PlannedRegion, ...]:
        """The regions that could save at least this share of the whole, and that somebody at hand can write."""
        return tuple(
            region
            for region in self.regions
            if region.gain_ms >= least * self.whole_ms and (region.writer == "playbook" or not playbook_alone)
        )


def plan_of(capture: Capture, target: TargetName, facts: DeviceFacts, precision: Precision = "default") -> Plan:
    """Partition and rank. The same capture on the same device gives the same plan."""
    writers = Writers(target, facts, precision, capture.compiled_ms is not None)
    regions = regions_of(capture, writers)
    if on_gpu(target):  # where all that is judged waits for one device
        regions = joined(regions, writers)
    operations = [each for part in capture.parts for each in part.operations]
    missed_ms = sum(each.ms for each in capture.missed)
    # On a busy machine the parts may have taken longer than the whole did in its best call.
    called_ms = capture.whole_ms if capture.compiled_ms is None else capture.compiled_ms
    whole_ms = max(called_ms, missed_ms + sum(each.ms for each in operations))
    between_ms = max(0.0, whole_ms - missed_ms - sum(each.ms for each in operations))
    steps = max(1, sum(each.name not in FREE for each in operations))
    each_ms = 0.0 if capture.missed else between_ms / steps
    hindered: dict[str, float] = defaultdict(float)
    for operation in operations:
        if operation.hindrance:
            hindered[f"{operation.op.target}: {operation.hindrance}"] += operation.ms
    parts = {id(part): index for index, part in enumerate(capture.parts)}
    planned = [_planned(group, parts, each_ms, facts, precision) for group in _alike(regions)]
    return Plan(
        name=capture.name,
        target=target,
        whole_ms=whole_ms,
        eager_ms=None if capture.compiled_ms is None else capture.whole_ms,
        uncompiled=capture.uncompiled,
        regions=tuple(sorted(planned, key=lambda region: -region.gain_ms)),
        missed=capture.missed,
        hindered=dict(hindered),
        views_ms=sum(each.ms for each in operations if each.name in FREE and not each.hindrance),
        between_ms=between_ms,
        memory_bytes=capture.memory_bytes,
        captured_parts=tuple(part.path for part in capture.parts),
    )


def floor_ms(window: Window, facts: DeviceFacts, precision: Precision) -> float:
    """The least time of one place: its FLOPs at the device's rate, or its bytes, where no cache can hold them."""
    moving = window.bytes_moved / (facts.peak_gb_s * 1e6) if window.bytes_moved > facts.l3_bytes else 0.0
    rate = exact_gflop_s(window.signature.dtypes, facts, products_of(window.program, precision))
    return max(moving, window.flops / (rate * 1e6))


def _alike(regions: tuple[Region, ...]) -> list[list[Region]]:
    groups: dict[str, list[Region]] = defaultdict(list)
    for region in regions:
        groups[region.window.digest].append(region)
    return list(groups.values())


def _planned(
    group: list[Region], parts: dict[int, int], each_ms: float, facts: DeviceFacts, precision: Precision
) -> PlannedRegion:
    first = group[0]
    places = tuple(
        Place(
            part=parts[id(region.window.part)],
            start=region.window.start,
            end=region.window.end,
            modules=region.window.modules,
        )
        for region in group
    )
    # One call stays where there were as many as steps.
    saved_calls = (first.window.steps - 1) * len(group)
    return PlannedRegion(
        digest=first.window.digest,
        kind=first.kind,
        operations=tuple(each.name for each in first.window.operations if each.name not in FREE),
        places=places,
        writer="playbook" if first.recipe else "language model",
        recipe=first.recipe,
        ms=sum(region.window.ms for region in group),
        between_ms=saved_calls * each_ms,
        floor_ms=sum(min(region.window.ms, floor_ms(region.window, facts, precision)) for region in group),
    )
