"""A suite's tasks with each of their workloads as a task of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from graph.suites.tasks import SuiteTask
from harness.nouns.errors import UserError
from harness.nouns.task import Task
from harness.tasks.one_workload import alone

MOST = 100
"""Workloads of a task: the id of its third is 100 times the task's, and 3."""


def each_workload(
    tasks: Sequence[SuiteTask], describe: Callable[[SuiteTask], Task], jobs: int
) -> tuple[SuiteTask, ...]:
    """One task for each workload, called `<task> <workload>`; as it is where there is one, or where it is no task.

    Raises `UserError` for a task with 100 workloads or more.
    """

    def split(task: SuiteTask) -> tuple[SuiteTask, ...]:
        try:
            works = describe(task).workloads
        except UserError:
            return (task,)  # its run says why
        if len(works) == 1:
            return (task,)
        if len(works) >= MOST:
            raise UserError(f"{task.name} has {len(works)} workloads.", f"A task of a suite may have {MOST - 1}.")
        return tuple(
            SuiteTask(
                id=MOST * task.id + place,
                name=f"{task.name} {work.name.replace('/', '_')}",
                source=alone(task.source, work.variant),
                whole=task.name,
            )
            for place, work in enumerate(works, 1)
        )

    with ThreadPoolExecutor(max(jobs, 1)) as pool:
        return tuple(each for found in pool.map(split, tasks) for each in found)
