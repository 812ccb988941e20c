"""How many regions are on their way at a time, and what each may spend of the seconds that all have together."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from graph.model.state import RegionState
from graph.runs.folder import RunFolder, reopen
from graph.runs.record import RunRecord
from harness.nouns.candidate import TargetName
from harness.nouns.errors import UserError
from harness.nouns.reading import read_bounded
from harness.wire.stopping import raise_if_stopped

LEAST_S = 20.0
"""No region's run is given less, however little of the budget is left for it."""
MOST_PLACES = 8
LOOKS_S = 0.2
"""How often one that waits for its turn looks whether it is still to come."""

beginning = threading.Lock()
"""Held while a region's share is told and its run begun, so that two are not told the same."""


def places_for(target: TargetName | None) -> int:
    """Regions side by side. Beside a GPU builds do not disturb the clock; on a processor they would."""
    return max(1, min(MOST_PLACES, len(os.sched_getaffinity(0)) // 2)) if target == "cuda" else 1


@contextmanager
def turn(target: TargetName | None) -> Iterator[None]:
    """Waits until there is a place for one more. Raises `StoppedError` where nobody waits for it any longer."""
    places = _places(places_for(target))
    while not places.acquire(timeout=LOOKS_S):
        raise_if_stopped()
    try:
        raise_if_stopped()
        yield
    finally:
        places.release()


def allowance_s(state: RegionState, folder: Path, budget_s: float) -> float:
    """This region's share of what is left of the budget, by its gain among those whose runs have not begun.

    Where regions go side by side each of them has the seconds that pass; none may have more than the budget.
    """
    begun = [task for task in state.tasks if RunFolder(folder / task.name).manifest_file.exists()]
    left = budget_s * places_for(state.target) - sum(_spent_s(RunFolder(folder / task.name)) for task in begun)
    waiting = sum(task.gain_ms for task in state.tasks if task not in begun)
    share = left * state.region.gain_ms / waiting if waiting else 0.0
    return max(LEAST_S, min(budget_s, share))


def _spent_s(run: RunFolder) -> float:
    """What a run took; of one that is on its way, all that it may."""
    try:
        record = RunRecord.model_validate_json(read_bounded(run.record))
        if record.outcome not in ("running", "interrupted"):
            return record.seconds
    except (OSError, ValueError):
        pass
    try:
        return reopen(run.path)[1].settings.max_wall_s
    except UserError:
        return 0.0


@cache
def _places(number: int) -> threading.Semaphore:
    return threading.BoundedSemaphore(number)
