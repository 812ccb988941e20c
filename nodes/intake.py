"""The first node: turns the file's text into a task, and settles where and how its kernels will run.

A thread may be given more than one input: what it holds of another task is none of this run's.
"""

from __future__ import annotations

from harness.judging.protocol import Judge
from harness.nouns.errors import UserError
from harness.nouns.task import Direction, Task
from harness.tasks.direction import directed
from nodes.going_on import anew, best_to_go_on_from, deeper
from nodes.node import Update
from nodes.node_context import NodeContext
from nodes.reviewer import require_reviewer
from nodes.state import RunState


def intake(state: RunState, node_context: NodeContext) -> Update:
    """Describe the task. Raises `UserError` for a file that is none, or whose forward is random, and where the reviewer
    is the playbook, `MachineError` where nothing can run it.

    Target and isolation are settled here once, so that a resumed run goes on with the same. The same task again goes on
    from its best kernel.
    """
    require_reviewer(node_context.settings)
    judge = node_context.any_judge()
    target, tier = judge.device.target, judge.tier
    best = best_to_go_on_from(state, target, tier, node_context.settings)
    if best is not None:
        return deeper(state, best, node_context.settings)
    task = described(judge, state.source, state.name, node_context.settings.direction)
    return anew(state) | {"name": state.name, "task": task, "target": target, "tier": tier}


def described(judge: Judge, source: str, name: str, direction: Direction | None) -> Task:
    """The task that a file's text is. Raises `UserError` where it is none, and for one that no kernel can do right."""
    task = judge.describe(directed(source, direction), name=name)
    if task.defect:
        raise UserError(
            f"{name}: {task.defect}, so that no kernel can be right.",
            "Take what is random out of forward, or give it as an input.",
        )
    return task
