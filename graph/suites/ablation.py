"""The same task under several depth gates of the profiler: what being shown a profile early or late is worth."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from graph.runs.folder import RUNS, Manifest, RunFolder, create, new_id, reopen
from graph.runs.record import RunRecord
from harness.nouns.errors import UserError
from harness.nouns.frozen import Frozen
from harness.nouns.verdict import Status
from nodes.settings import Gates, Settings
from nodes.state import Step, TaskInput

FOLDER = "profile-from-"


class Point(Frozen):
    """One judged kernel: its depth and move; its speed-up over the baseline with the 95 % interval where it is right.

    `best` is the best speed-up so far, `profiled` says that the move was chosen with a profile at hand.
    """

    depth: int
    move: str
    status: Status
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    improved: bool = False
    best: float | None = None
    profiled: bool = False


class Schedule(Frozen):
    """One run: from which depth on its optimizer saw a profile, and every kernel in the order they were judged."""

    profile_from: int
    points: tuple[Point, ...]
    profiles: int
    seconds: float
    stop_reason: str

    @property
    def best(self) -> Point | None:
        """The kernel that the run ended with; None where none passed."""
        return next((point for point in reversed(self.points) if point.improved), None)

    @property
    def depth(self) -> int:
        """Optimizations that passed."""
        return max((point.depth for point in self.points), default=0)


class Ablation(Frozen):
    """A task's runs, the schedules in the order they were asked for."""

    schema_version: Literal[1] = 1
    task: str
    shapes: str
    created: datetime
    device: str
    baseline: str
    schedules: tuple[Schedule, ...]


def begin_ablation(
    task: TaskInput, settings: Settings, profile_from: tuple[int, ...], out: Path | None
) -> tuple[Path, list[tuple[RunFolder, Manifest]]]:
    """Make the folder and in it one run for each schedule. Raises `UserError` and `MachineError`."""
    path = (out if out is not None else RUNS / f"ablate-{task.name}-{new_id(datetime.now(UTC))}").absolute()
    runs = []
    for depth in profile_from:
        gated = settings.model_copy(update={"profile_from_depth": one_gate(depth), "diagnose": "every"})
        runs.append(create(path / f"{FOLDER}{depth}", name=task.name, source=task.source, settings=gated))
    return path, runs


def one_gate(depth: int) -> Gates:
    """The same gate for every op class, which nothing opens earlier: what is compared are depths."""
    return Gates(gemm=depth, elementwise=depth, reduction=depth, other=depth, when_stuck=None)


def reopen_ablation(path: Path) -> list[tuple[RunFolder, Manifest]]:
    """The runs of an earlier ablation, the earliest gate first. Raises `UserError`."""
    runs = [file.parent for file in path.glob(f"{FOLDER}*/run.json")]
    found = {gate: run for run in runs if (gate := run.name.removeprefix(FOLDER)).isdecimal()}
    if not found:
        raise UserError(f"{path} holds no ablation.", "Name the folder that an earlier one printed.")
    return [reopen(found[gate]) for gate in sorted(found, key=int)]


def schedule_of(record: RunRecord) -> Schedule:
    """What the figure shows of a run. A kernel that the sanitizers withdrew counts as refused from the beginning."""
    gate = int(record.settings["profile_from_depth"]["gemm"])
    withdrawn = {step.candidate for step in record.steps if step.agent == "sanitizer" and step.status == "refused"}
    points: list[Point] = []
    profiled = False
    best: float | None = None
    for step in record.steps:
        profiled = profiled or step.agent == "profiler"
        if step.agent != "tester" or step.status is None:
            continue
        point = _point(step, "refused" if step.candidate in withdrawn else step.status, record)
        best = point.speedup if point.improved else best
        points.append(point.model_copy(update={"best": best, "profiled": profiled}))
    return Schedule(
        profile_from=gate,
        points=tuple(points),
        profiles=sum(step.agent == "profiler" for step in record.steps),
        seconds=record.seconds,
        stop_reason=record.stop_reason,
    )


def _point(step: Step, status: Status, record: RunRecord) -> Point:
    verdict = record.verdicts.get(step.candidate or "")
    timing = verdict.timing if verdict and status == "passed" else None
    return Point(
        depth=step.depth,
        move=step.move or "first draft",
        status=status,
        speedup=timing.speedup if timing else None,
        low=timing.speedup_interval.low if timing else None,
        high=timing.speedup_interval.high if timing else None,
        improved=step.improved and timing is not None,
    )
