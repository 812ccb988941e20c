"""The same task under several settings of one kind: from which depth a profile is shown, or how many lessons are."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from graph.runs.folder import RUNS, Manifest, RunFolder, create, new_id, reopen
from graph.runs.record import RunRecord
from harness.nouns.errors import UserError
from harness.nouns.frozen import Frozen
from harness.nouns.verdict import Interval, Status
from nodes.models.replay import ReplayModel
from nodes.settings import Gates, Settings
from nodes.state import Step, TaskInput
from nodes.turn.agent_loop import FILE_NAME as CONVERSATION
from nodes.turn.prompt_size import estimated_tokens

Varied = Literal["profile_from", "lessons"]
"""What an ablation's runs differ in: the depth of the profiler's gate, or the number of lessons of other runs."""
NAMES: dict[Varied, str] = {"profile_from": "profile from depth", "lessons": "lessons"}
FOLDERS: dict[Varied, str] = {"profile_from": "profile-from-", "lessons": "lessons-"}


class Point(Frozen):
    """One judged kernel: its digest, depth and move; where it is right its speed-up over the baseline and interval.

    `best` is the best speed-up so far, `profiled` says that the move was chosen with a profile at hand.
    """

    candidate: str = ""
    depth: int
    move: str
    status: Status
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    improved: bool = False
    best: float | None = None
    profiled: bool = False

    @property
    def told(self) -> str:
        """The interval, in words."""
        return Interval(low=self.low, high=self.high).said() if self.low and self.high else ""


class Schedule(Frozen):
    """One run: from which depth on its optimizer saw a profile, and every kernel in the order they were judged.

    `lessons` is there where the runs differ in them; `asked_tokens` are those of all its questions, estimated.
    """

    profile_from: int
    lessons: int | None = None
    asked_tokens: int = 0
    points: tuple[Point, ...]
    profiles: int
    seconds: float
    stop_reason: str

    @property
    def best(self) -> Point | None:
        """The kernel that the run ended with; None where none passed."""
        return next((point for point in reversed(self.points) if point.improved), None)

    @property
    def varied(self) -> Varied:
        """What it differs from the others in."""
        return "profile_from" if self.lessons is None else "lessons"

    @property
    def value(self) -> int:
        """Of that."""
        return self.profile_from if self.lessons is None else self.lessons

    @property
    def named(self) -> str:
        """What it differs in, with its value."""
        return f"{NAMES[self.varied]} {self.value}"

    @property
    def folder(self) -> str:
        """Its run's, in the ablation's."""
        return f"{FOLDERS[self.varied]}{self.value}"

    @property
    def depth(self) -> int:
        """Optimizations that passed."""
        return max((point.depth for point in self.points), default=0)


class Ablation(Frozen):
    """A task's runs, the schedules in the order they were asked for.

    `at_best` is the speed-up that a kernel at the device's floor would have; absent where no kernel passed.
    """

    schema_version: Literal[1] = 1
    task: str
    shapes: str
    created: datetime
    device: str
    baseline: str
    at_best: float | None = None
    schedules: tuple[Schedule, ...]

    @property
    def varied(self) -> Varied:
        """What its runs differ in."""
        return self.schedules[0].varied if self.schedules else "profile_from"

    @property
    def column(self) -> str:
        """That, as the head of a column."""
        return NAMES[self.varied]

    @property
    def same_kernel(self) -> tuple[float, float] | None:
        """The lowest and the highest speed-up of one kernel in several runs, of the one that differs most."""
        runs: dict[str, set[int]] = {}
        speedups: dict[str, list[float]] = {}
        for schedule in self.schedules:
            for point in schedule.points:
                if point.candidate and point.speedup is not None:
                    runs.setdefault(point.candidate, set()).add(schedule.value)
                    speedups.setdefault(point.candidate, []).append(point.speedup)
        spans = [(min(found), max(found)) for kernel, found in speedups.items() if len(runs[kernel]) > 1]
        return max(spans, key=lambda span: span[1] / span[0], default=None)

    @property
    def told_apart(self) -> bool:
        """Whether two runs' best kernels differ by more than their intervals, and more than one kernel's times do."""
        low, high = self.same_kernel or (1.0, 1.0)
        bests = [
            (best.speedup, best.low, best.high)
            for best in (schedule.best for schedule in self.schedules)
            if best and best.speedup is not None and best.low is not None and best.high is not None
        ]
        return any(
            above > below_high and speedup / slower > high / low
            for speedup, above, _ in bests
            for slower, _, below_high in bests
        )

    @property
    def noise(self) -> str:
        """What of the numbers tells nothing, in words; empty where the runs share no kernel and their bests differ."""
        words = []
        if self.same_kernel:
            low, high = self.same_kernel
            words.append(
                f"One and the same kernel was measured at {low:.2f}x in one run and at {high:.2f}x in another: "
                f"what differs by less than {high / low:.2f} times is not told apart."
            )
        if sum(schedule.best is not None for schedule in self.schedules) > 1 and not self.told_apart:
            words.append("The best kernels of these runs are not told apart.")
        return " ".join(words)


def begin_ablation(
    task: TaskInput, settings: Settings, values: tuple[int, ...], out: Path | None, varied: Varied = "profile_from"
) -> tuple[Path, list[tuple[RunFolder, Manifest]]]:
    """Make the folder and in it one run for each schedule. Raises `UserError` and `MachineError`."""
    path = (out if out is not None else RUNS / f"ablate-{task.name}-{new_id(datetime.now(UTC))}").absolute()
    runs = []
    for value in values:
        changed = {"profile_from_depth": one_gate(value), "diagnose": "every"}
        own = settings.model_copy(update=changed if varied == "profile_from" else {"lessons": value})
        runs.append(create(path / f"{FOLDERS[varied]}{value}", name=task.name, source=task.source, settings=own))
    return path, runs


def one_gate(depth: int) -> Gates:
    """The same gate for every op class, which nothing opens earlier: what is compared are depths."""
    return Gates(gemm=depth, elementwise=depth, reduction=depth, other=depth, when_stuck=None)


def reopen_ablation(path: Path) -> list[tuple[RunFolder, Manifest]]:
    """The runs of an earlier ablation, the earliest gate or fewest lessons first. Raises `UserError`."""
    for begin in FOLDERS.values():
        runs = [file.parent for file in path.glob(f"{begin}*/run.json")]
        found = {value: run for run in runs if (value := run.name.removeprefix(begin)).isdecimal()}
        if found:
            return [reopen(found[value]) for value in sorted(found, key=int)]
    raise UserError(f"{path} holds no ablation.", "Name the folder that an earlier one printed.")


def schedule_of(record: RunRecord, folder: RunFolder | None = None) -> Schedule:
    """What the figure shows of a run. A kernel that the sanitizers withdrew counts as refused from the beginning.

    The name of its `folder` tells what it differs in, the conversation there how much was asked.
    """
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
        lessons=record.settings["lessons"] if folder and folder.path.name.startswith(FOLDERS["lessons"]) else None,
        asked_tokens=_asked(folder.path / CONVERSATION) if folder else 0,
        points=tuple(points),
        profiles=sum(step.agent == "profiler" for step in record.steps),
        seconds=record.seconds,
        stop_reason=record.stop_reason,
    )


def _asked(conversation: Path) -> int:
    """The tokens of all questions, with what was said before in the same turn; none where no model was asked."""
    if not conversation.is_file():
        return 0
    exchanges = ReplayModel.load(conversation).exchanges
    return sum(estimated_tokens(part.content) for said in exchanges for part in said.prompt)


def _point(step: Step, status: Status, record: RunRecord) -> Point:
    verdict = record.verdicts.get(step.candidate or "")
    timing = verdict.timing if verdict and status == "passed" else None
    return Point(
        candidate=step.candidate or "",
        depth=step.depth,
        move=step.move or "first draft",
        status=status,
        speedup=timing.speedup if timing else None,
        low=timing.speedup_interval.low if timing else None,
        high=timing.speedup_interval.high if timing else None,
        improved=step.improved and timing is not None,
    )
