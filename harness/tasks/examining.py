"""Is a task sound? Its filters, conditioning and cost, found out in a child process that has torch."""

from __future__ import annotations

import tempfile
from pathlib import Path

from harness.nouns.errors import UserError
from harness.nouns.task import Task, Workload
from harness.nouns.task_filters import SEEDS, TaskCheck, WorkloadFacts
from harness.nouns.tier import Tier
from harness.processes.trusted_child import JobDiedError, warm_parent
from harness.tasks.describing import LIMITS


def examine_task(task: Task, *, tier: Tier) -> TaskCheck:
    """Run the reference under several seeds. Raises `UserError` where that fails."""
    return TaskCheck(
        name=task.name,
        op_class=task.op_class,
        traced=task.program is not None,
        seeds=SEEDS,
        defect=task.defect,
        left_out=task.left_out,
        workloads=tuple(_facts(task, workload, tier) for workload in task.workloads),
    )


def _facts(task: Task, workload: Workload, tier: Tier) -> WorkloadFacts:
    payload = {
        "source": task.source,
        "name": task.name,
        "variant": workload.variant.model_dump(mode="json"),
        "op_class": task.op_class,
        "multiplies": task.facts.multiplies,
        "state": workload.signature.state,
    }
    with tempfile.TemporaryDirectory(prefix="cutegen-") as scratch:
        try:
            found = warm_parent().run("examine", payload, tier=tier, cwd=Path(scratch), limits=LIMITS)
        except JobDiedError as died:
            raise UserError(
                f"{task.name}: running it ended its process, {died.reason}.", "Is there enough memory for it?"
            ) from died
    facts = {"name": workload.name, "flops": workload.flops, "bytes_moved": workload.bytes_moved}
    return WorkloadFacts.model_validate(facts | found)
