"""A task's own inputs and weights as files, drawn in a child process that has torch."""

from __future__ import annotations

from pathlib import Path

from harness.nouns.errors import UserError
from harness.nouns.task import Task, Workload
from harness.nouns.tier import Tier
from harness.processes.trusted_child import JobDiedError, warm_parent
from harness.tasks.describing import LIMITS


def draw_arguments(task: Task, workload: Workload, folder: Path, *, tier: Tier) -> None:
    """Fill `folder` with what the file gives for a workload; `Tool.values` takes it. Raises `UserError`."""
    payload = {"source": task.source, "name": task.name, "variant": workload.variant.model_dump(mode="json")}
    try:
        warm_parent().run("draw", payload, tier=tier, cwd=folder, limits=LIMITS)
    except JobDiedError as died:
        raise UserError(f"{task.name}: drawing its inputs ended, {died.reason}.", "Is there enough memory?") from died
