"""From a task file's text to a `Task`, and to its own inputs and weights, in a child process that has torch."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError

from harness.isolation.policy import Access, Limits, Needs
from harness.nouns.batches import Batches
from harness.nouns.errors import UserError
from harness.nouns.events import Describing, Event
from harness.nouns.task import DESCRIBE_S, Task, Workload
from harness.nouns.tier import Tier
from harness.processes.trusted_child import JobDiedError, JobTookTooLongError, warm_parent
from harness.wire.telling import overhearing, tell

LIMITS = Limits(wall_s=DESCRIBE_S, memory_bytes=64 << 30, processes=512, file_bytes=1 << 30)

STARTING = "starting PyTorch"


def describe_task(
    source: str, *, name: str, tier: Tier, read: tuple[str, ...] = (), within_s: float = DESCRIBE_S
) -> Task:
    """Import, run and trace a KernelBench-style file. `read` names folders that it may read besides.

    Raises `UserError` where the file cannot serve as a task, or takes longer than `within_s` seconds.
    """
    doing: list[str] = []

    def note(event: Event) -> None:
        if isinstance(event, Describing):
            doing.append(event.doing)

    try:
        with tempfile.TemporaryDirectory(prefix="cutegen-") as scratch, overhearing(note):
            tell(Describing(name=name, doing=STARTING))
            found = warm_parent().run(
                "describe",
                {"source": source, "name": name},
                tier=tier,
                cwd=Path(scratch),
                limits=replace(LIMITS, wall_s=within_s),
                needs=Needs(Access(read=read)),
            )
        task = Task.model_validate(found)
    except JobTookTooLongError as late:
        raise UserError(
            f"{name}: describing the task took longer than {within_s:g} s, and was then {doing[-1]}.",
            "This machine is busy, or slow: raise max_describe_s."
            if doing[-1] == STARTING
            else "Does that come to an end? If it only needs more time, raise max_describe_s.",
        ) from late
    except JobDiedError as died:
        raise UserError(f"{name}: running it ended its process, {died.reason}.", "Try it in plain Python.") from died
    except ValidationError as error:
        raise UserError(f"{name}: what it says of itself is no task.", "Try it in plain Python.") from error
    if (task.source, task.name) != (source, name):
        raise UserError(f"{name}: what it says of itself is another task.", "Try it in plain Python.")
    return task


def other_batches(task: Task, *, tier: Tier) -> Batches:
    """See `Batches`; with a reason where the file's process ended or took too long."""
    payload = {"source": task.source, "name": task.name}
    try:
        with tempfile.TemporaryDirectory(prefix="cutegen-") as scratch:
            found = warm_parent().run("batches", payload, tier=tier, cwd=Path(scratch), limits=LIMITS)
        return Batches.model_validate(found)
    except (JobDiedError, ValidationError) as died:
        reason = died.reason if isinstance(died, JobDiedError) else "with an answer that is none"
        return Batches(refused=f"running the file at others ended, {reason}")


def draw_arguments(task: Task, workload: Workload, folder: Path, *, tier: Tier) -> None:
    """Fill `folder` with what the file gives for a workload; `Tool.values` takes it. Raises `UserError`."""
    payload = {"source": task.source, "name": task.name, "variant": workload.variant.model_dump(mode="json")}
    try:
        warm_parent().run("draw", payload, tier=tier, cwd=folder, limits=LIMITS)
    except JobDiedError as died:
        raise UserError(f"{task.name}: drawing its inputs ended, {died.reason}.", "Is there enough memory?") from died
