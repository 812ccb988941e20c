"""Is a task sound? Its filters, conditioning and cost, found out in a child process that has torch."""

from __future__ import annotations

import tempfile
from pathlib import Path

from harness.describing import LIMITS
from harness.errors import UserError
from harness.task import Task
from harness.task_filters import SEEDS, TaskCheck, WorkloadFacts
from harness.verdict import Tier
from harness.worker.client import JobDiedError, warm_parent


def examine_task(task: Task, *, tier: Tier) -> TaskCheck:
    """Run the reference under several seeds. Raises `UserError` where that fails."""
    with tempfile.TemporaryDirectory(prefix="cutegen-") as scratch:
        payload = {"source": task.source, "name": task.name}
        try:
            found = warm_parent().run("examine", payload, tier=tier, cwd=Path(scratch), limits=LIMITS)
        except JobDiedError as died:
            raise UserError(
                f"{task.name}: running it ended its process, {died.reason}.", "Is there enough memory for it?"
            ) from died
    workloads = tuple(
        WorkloadFacts.model_validate({"name": work.name, "flops": work.flops, "bytes_moved": work.bytes_moved} | found)
        for work in task.workloads
    )
    return TaskCheck(
        name=task.name, op_class=task.op_class, traced=task.program is not None, seeds=SEEDS, workloads=workloads
    )
