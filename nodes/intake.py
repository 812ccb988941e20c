"""The first node: turns the file's text into a task, and settles where and how its kernels will run.

A thread may be given more than one input: what it holds of another task is none of this run's.
"""

from __future__ import annotations

from harness.isolation.tiers import resolve_tier
from harness.nouns.errors import UserError
from harness.tasks.describing import describe_task
from nodes.going_on import anew, best_to_go_on_from, deeper
from nodes.node import Update
from nodes.node_context import NodeContext
from nodes.state import RunState
from tools.judges import choose_target


def intake(state: RunState, node_context: NodeContext) -> Update:
    """Describe the task. Raises `UserError` for a file that is none, or whose forward is random, `MachineError` where
    nothing can run it.

    Target and isolation are settled here once, so that a resumed run goes on with the same. The same task again goes on
    from its best kernel.
    """
    target = choose_target(node_context.settings.target)
    tier = resolve_tier(node_context.settings.isolation)
    best = best_to_go_on_from(state, target.name, tier, node_context.settings)
    if best is not None:
        return deeper(state, best, node_context.settings)
    task = describe_task(state.source, name=state.name, tier=tier)
    if task.defect:
        raise UserError(
            f"{state.name}: {task.defect}, so that no kernel can be right.",
            "Take what is random out of forward, or give it as an input.",
        )
    return anew(state) | {"name": state.name, "task": task, "target": target.name, "tier": tier}
