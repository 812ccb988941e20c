"""The first node: turns the file's text into a task, and settles where and how its kernels will run.

A thread may be given more than one input: what it holds of another task is none of this run's.
"""

from __future__ import annotations

from langgraph.types import Overwrite

from harness.judging.protocol import KernelJudge
from harness.nouns.candidate import TargetName
from harness.nouns.errors import UserError
from harness.nouns.task import Direction, Task
from harness.nouns.tier import Tier
from harness.nouns.verdict import precision_on
from harness.tasks.declaring import directed
from nodes.agents.reviewer import require_reviewer
from nodes.settings import Settings
from nodes.state import Best, RunState
from nodes.stops import after_test
from nodes.turn.node import NodeContext, Update


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


def described(judge: KernelJudge, source: str, name: str, direction: Direction | None) -> Task:
    """The task that a file's text is. Raises `UserError` where it is none, and for one that no kernel can do right."""
    task = judge.describe(directed(source, direction), name=name)
    if task.defect:
        raise UserError(
            f"{name}: {task.defect}, so that no kernel can be right.",
            "Take what is random out of forward, or give it as an input.",
        )
    return task


# -- A further input on a thread: the same task goes on from its best kernel, another one begins anew -----------------


GROWING = ("history", "usage", "seconds", "device_seconds")
"""Fields that nodes add to: to begin them anew their sum is overwritten."""
_GIVEN = ("source", "name", "settings")


def best_to_go_on_from(state: RunState, target: TargetName, tier: Tier, settings: Settings) -> Best | None:
    """The best kernel of an earlier go, where that was on the same task and judged as the settings ask for now."""
    source = directed(state.source, settings.direction)
    if state.best is None or state.task is None or state.task.source != source:
        return None
    judged = state.best.verdict
    now = (target, tier, precision_on(target, settings.precision), settings.tolerance)
    then = (state.target, state.tier, precision_on(target, judged.precision), judged.tolerance)
    return state.best if then == now else None


def anew(state: RunState) -> Update:
    """What takes an earlier go's word back, its history and its costs among it. Empty on a thread of its own."""
    fields = {name: field.get_default() for name, field in RunState.model_fields.items() if name not in _GIVEN}
    kept = {name: default for name, default in fields.items() if getattr(state, name) != default}
    return {name: Overwrite(default) if name in GROWING else default for name, default in kept.items()}


def deeper(state: RunState, best: Best, settings: Settings) -> Update:
    """The way on from the best kernel; it ends at once where the settings allow no more than there has been."""
    update: Update = {
        "candidate": best.candidate,
        "verdict": best.verdict,
        "profile": best.profile,
        "move": "",
        "sweep": None,
        "diagnosis": None,
        "repairs": 0,
        "gave_up": False,
        "final_repair": False,
        "result": None,
    }
    return {**update, "stop_reason": after_test(state.model_copy(update=update), settings)}
