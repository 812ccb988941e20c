"""What the four agents that speak to a model have in common: their request, and a turn that ends the run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.tools import BaseTool

from harness.building.versions import compiled_with
from harness.nouns.candidate import Candidate, TargetName
from harness.nouns.verdict import precision_on
from harness.wire.entry import stub
from nodes.node import Update
from nodes.node_context import NodeContext
from nodes.protocols import JudgedRun
from nodes.roles import Speaker, Voice
from nodes.state import Best, RunState, Step, Usage, require
from nodes.turn.answers import AnswerError
from nodes.turn.request import Left, Request
from nodes.turn.speak import TurnEndedError


def request_for(
    role: Speaker, state: RunState, node_context: NodeContext, tools: Sequence[BaseTool], **facts: Any
) -> Request:
    """The request of one role: the task, the machine, the history, what is left, and the role's own `facts`."""
    left = Left(
        depth=state.depth,
        max_depth=node_context.settings.max_depth,
        seconds=max(0.0, node_context.settings.max_wall_s - state.seconds),
        tools=tuple(tool.name for tool in tools),
        calls=node_context.settings.max_tool_calls,
    )
    return asked(role, state, node_context, left=left, history=state.history, **facts)


def asked(role: Voice, run: JudgedRun, node_context: NodeContext, **facts: Any) -> Request:
    """The request of one role in any graph: the task, the machine, and the role's own `facts`."""
    task = require(run.task, "task")
    target: TargetName = require(run.target, "target")
    return Request(
        role=role,
        task=task,
        target=target,
        precision=precision_on(target, node_context.settings.precision),
        tolerance=node_context.settings.tolerance,
        exemplar=node_context.settings.exemplar,
        device=node_context.judge(run).facts(),
        compiled_with=compiled_with(target),
        stub=stub(task, target),
        **facts,
    )


def author(role: Voice, node_context: NodeContext, usage: Usage) -> str:
    """How a kernel names who wrote it: "agent:model". Where one model went on for another, it is that one."""
    model = usage.fell_back[-1].answered_by if usage.fell_back else node_context.settings.model_for(role)
    return f"{role}:{model}"


def require_untried(kernel: Candidate, history: Sequence[Step]) -> None:
    """Send back a kernel that the judge has seen fail in this run: it would fail again. Raises `AnswerError`."""
    tests = [step for step in history if step.agent == "tester" and step.candidate == kernel.digest]
    if tests and tests[-1].status != "passed":
        raise AnswerError(
            "failed_before", f"This very kernel was tested before and failed: {tests[-1].message} Change its cause."
        )


def best_speedup(best: Best | None) -> float | None:
    """The best kernel's speed-up, absent before the first pass."""
    return best.verdict.timing.speedup if best and best.verdict.timing else None


def ended(role: Speaker, state: RunState, error: TurnEndedError) -> Update:
    """The update of an agent whose turn ended without an answer: the run ends with what it has.

    Where it had come to its end already, what ended it stays the reason, and the repair at hand is given up.
    """
    step = Step(depth=state.depth, agent=role, message=str(error), speedup=best_speedup(state.best), usage=error.usage)
    return {
        "history": (step,),
        "usage": error.usage,
        **({"gave_up": True} if state.final_repair else {"stop_reason": error.stop}),
    }
