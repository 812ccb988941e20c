"""The first and the last nodes of an evolution: the task, and the kernel that is left when tools have watched it."""

from __future__ import annotations

from harness.judging.device_lock import held_s
from harness.nouns.errors import UserError
from harness.nouns.sanitizer_run import SanitizerRun
from harness.tasks.direction import directed
from nodes.evolution.archivist import inspirations
from nodes.evolution.selection import by_speed
from nodes.evolution.state import EvolutionState
from nodes.evolution.verifier import require_verifiers
from nodes.intake import described
from nodes.node import Update
from nodes.node_context import NodeContext
from nodes.reviewer import require_reviewer
from nodes.state import Best, Step
from nodes.turn.agent_common import best_speedup
from tools.kernel_tools import call_tool
from tools.wording import say_sanitizers


def intake(state: EvolutionState, node_context: NodeContext) -> Update:
    """Describe the task and settle where its kernels run; a run that had ended goes on from its kernels.

    Raises `UserError` for a file that is no task and for verifiers or a reviewer without a model, `MachineError` where
    nothing can run it.
    """
    require_verifiers(node_context.settings)
    require_reviewer(node_context.settings)
    judge, direction = node_context.any_judge(), node_context.settings.direction
    if state.task is not None and state.task.source != directed(state.source, direction):
        raise UserError("This thread holds the evolution of another task.", "Begin a new one.")
    task = state.task or described(judge, state.source, state.name, direction)
    found: Update = {"task": task, "target": judge.device.target, "tier": judge.tier}
    shown, told = inspirations(state.model_copy(update=found), node_context, node_context.settings.inspirations)
    steps = (Step(depth=state.begun, agent="archivist", message=told),) if told else ()
    ended = {"stop_reason": None, "result": None}
    return {"name": state.name, **found, **ended, "inspiration": shown, "history": steps}


def sanitizer(state: EvolutionState, node_context: NodeContext) -> Update:
    """Watch the best kernel's every access; one with a finding is withdrawn, and the fastest of the others follows."""
    if not node_context.settings.sanitize:
        return {}
    before = held_s()
    best, withdrawn, steps = state.best, list(state.withdrawn), list[Step]()
    while best is not None:
        runs: tuple[SanitizerRun, ...] = call_tool(node_context.tools(state).sanitize_kernel, best.candidate.source)
        verdict = best.verdict.sanitized(runs)
        watched = best.candidate
        if verdict.passed:
            best = best.model_copy(update={"verdict": verdict})
        else:
            withdrawn.append(watched.digest)
            best = _next(state, withdrawn)
        steps.append(
            Step(
                depth=state.generation,
                agent="sanitizer",
                candidate=watched.digest,
                status=verdict.status,
                message=say_sanitizers(runs),
                speedup=best_speedup(best),
            )
        )
        if verdict.passed:
            break
    return {
        "best": best,
        "withdrawn": tuple(withdrawn),
        "history": tuple(steps),
        "device_seconds": held_s() - before,
    }


def _next(state: EvolutionState, withdrawn: list[str]) -> Best | None:
    left = [each for each in by_speed(state.pool) if each.digest not in withdrawn]
    found = left[0] if left else None
    return (
        Best(candidate=found.candidate, verdict=found.verdict) if found and found.candidate and found.verdict else None
    )
