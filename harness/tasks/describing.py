"""From a task file's text to a `Task`, in a child process that has torch."""

from __future__ import annotations

import tempfile
from pathlib import Path

from pydantic import ValidationError

from harness.isolation.policy import Access, Limits
from harness.nouns.errors import UserError
from harness.nouns.task import Task
from harness.nouns.tier import Tier
from harness.processes.trusted_child import JobDiedError, warm_parent

LIMITS = Limits(wall_s=300.0, memory_bytes=64 << 30, processes=512, file_bytes=1 << 30)


def describe_task(source: str, *, name: str, tier: Tier, read: tuple[str, ...] = ()) -> Task:
    """Import, run and trace a KernelBench-style file. `read` names folders that it may read besides.

    Raises `UserError` where the file cannot serve as a task.
    """
    with tempfile.TemporaryDirectory(prefix="cutegen-") as scratch:
        try:
            task = Task.model_validate(
                warm_parent().run(
                    "describe",
                    {"source": source, "name": name},
                    tier=tier,
                    cwd=Path(scratch),
                    limits=LIMITS,
                    access=Access(read=read),
                )
            )
        except JobDiedError as died:
            raise UserError(
                f"{name}: running it ended its process, {died.reason}.", "Try it in plain Python."
            ) from died
        except ValidationError as error:
            raise UserError(f"{name}: what it says of itself is no task.", "Try it in plain Python.") from error
    if (task.source, task.name) != (source, name):
        raise UserError(f"{name}: what it says of itself is another task.", "Try it in plain Python.")
    return task
