"""How many regions are on their way at a time, in which order, and what is left for each of the time of all."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from statistics import mean

from graph.model.budget import LEAST_REGION_S, Allowance, allowance
from graph.model.state import RegionState
from graph.runs.folder import RunFolder
from graph.runs.record import RunRecord
from harness.nouns.candidate import TargetName
from harness.nouns.devices import on_gpu
from harness.nouns.reading import read_bounded
from harness.wire.stopping import pause

MOST_PLACES = 8
LOOKS_S = 0.2
"""How often one that waits for its turn looks whether it is still to come."""
ARRIVING_S = 2.0
"""All regions are sent at once; so long the better ones are waited for."""
MOST = 0.75
TAIL_S = 3.0
"""Of a run, beside its steps: its task is described, its drop-in timed, its report written."""


class NotBegunError(Exception):
    """There is no time for one more region."""


@dataclass
class Phase:
    """The time that a model's regions have together, from the first of them on."""

    ends_at: float
    began: float = field(default_factory=time.monotonic)
    inside: int = 0
    waiting: set[int] = field(default_factory=set)
    passed: set[int] = field(default_factory=set)
    counted_at: float = field(default_factory=time.monotonic)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def room_s(self) -> float:
        """What is left of it."""
        return self.ends_at - time.monotonic()

    def counted_s(self) -> float:
        """Seconds since somebody counted some: those of regions side by side count once."""
        with self.lock:
            before, self.counted_at = self.counted_at, time.monotonic()
            return self.counted_at - before

    def comes_next(self, rank: int) -> bool:
        """Whether the region of that rank is the best that waits, and no better one is still on its way here."""
        with self.lock:
            better = set(range(rank)) - self.passed
            return rank == min(self.waiting) and (not better or time.monotonic() - self.began > ARRIVING_S)

    def waits(self, rank: int) -> None:
        """The region of that rank has come, and wants its turn."""
        with self.lock:
            self.waiting.add(rank)

    def passes(self, rank: int) -> None:
        """It has its turn, or will have none."""
        with self.lock:
            self.waiting.discard(rank)
            self.passed.add(rank)

    def require_room(self, first_s: float) -> None:
        """Raises `NotBegunError` where less than that is left."""
        if self.room_s < first_s:
            raise NotBegunError


_phases: dict[Path, Phase] = {}
_entering = threading.Lock()


def places_for(target: TargetName | None) -> int:
    """Regions side by side. Beside a GPU builds do not disturb the clock; on a processor they would."""
    return max(1, min(MOST_PLACES, len(os.sched_getaffinity(0)) // 2)) if on_gpu(target) else 1


@contextmanager
def phase_of(state: RegionState, folder: Path, budget_s: float) -> Iterator[Phase]:
    """The regions' common time, which the first of them to come opens; after a kill with what earlier goes left."""
    with _entering:
        if folder not in _phases:
            until_s = budget_s if state.until_s is None else state.until_s
            spent_s = sum(record.seconds for record in _records(state, folder)) / places_for(state.target)
            _phases[folder] = Phase(time.monotonic() + until_s - state.seconds - spent_s)
        phase = _phases[folder]
        phase.inside += 1
    try:
        yield phase
    finally:
        with _entering:
            phase.inside -= 1
            if not phase.inside:
                del _phases[folder]


@contextmanager
def turn(state: RegionState, phase: Phase, folder: Path) -> Iterator[None]:
    """Waits until there is a place for one more, and this is the best that waits.

    Raises `NotBegunError` where there is no time for a first kernel by then, and `StoppedError` where nobody waits.
    """
    rank, places = state.tasks.index(state.region), _places(places_for(state.target))
    first_s = partial(first_s_of, state, folder)
    phase.waits(rank)
    try:
        while not (phase.comes_next(rank) and places.acquire(blocking=False)):
            phase.require_room(first_s())
            pause(LOOKS_S)
    finally:
        phase.passes(rank)
    try:
        phase.require_room(first_s())
        yield
    finally:
        places.release()


def allowance_of(state: RegionState, folder: Path, phase: Phase) -> Allowance:
    """This region's share of what is left, by its gain among those whose runs have not begun."""
    waiting = [task for task in state.tasks if not RunFolder(folder / task.name).manifest_file.exists()]
    gain_ms = sum(task.gain_ms for task in waiting if task != state.region) + state.region.gain_ms
    share = state.region.gain_ms / gain_ms if gain_ms else 1.0
    return allowance(phase.room_s, share, places_for(state.target), first_s_of(state, folder))


def first_s_of(state: RegionState, folder: Path) -> float:
    """What a region's first kernel needs to be worth beginning: most of what those took that have ended."""
    told = [seconds for record in _records(state, folder) if (seconds := _first_s(record))]
    return MOST * mean(told) if told else LEAST_REGION_S


def _first_s(record: RunRecord) -> float | None:
    tests = [index for index, step in enumerate(record.steps) if step.agent == "tester"]
    if not tests:
        return None
    steps = (*record.steps[: tests[0] + 1], *(step for step in record.steps if step.agent == "sanitizer"))
    return sum(step.seconds for step in steps) + TAIL_S


def _records(state: RegionState, folder: Path) -> list[RunRecord]:
    """Those of the regions' runs that have ended."""
    found = []
    for task in state.tasks:
        try:
            found.append(RunRecord.model_validate_json(read_bounded(RunFolder(folder / task.name).record)))
        except (OSError, ValueError):
            continue
    return found


@cache
def _places(number: int) -> threading.Semaphore:
    return threading.BoundedSemaphore(number)
