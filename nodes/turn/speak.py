"""Put a question to the model of a role and take its answer: the front of a turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from langchain_core.tools import BaseTool

from harness.building.toolchain import compiled_with
from harness.nouns.candidate import Candidate, TargetName
from harness.nouns.verdict import precision_on
from harness.wire.entry import stub
from nodes.history import gains
from nodes.protocols import Account, JudgedRun
from nodes.request import Left, Request
from nodes.roles import Speaker, Voice
from nodes.state import Best, RunState, Step, Stop, Usage, require
from nodes.turn.agent_loop import TurnContext, TurnState
from nodes.turn.answers import AnswerError
from nodes.turn.node import NodeContext, Update
from nodes.turn.prompts import messages_for
from tools.library_tool import LOOK_UP

Answer = TypeVar("Answer")


class TurnEndedError(Exception):
    """The turn ended without an answer; `stop` says why the run ends with it, `usage` what it had cost by then."""

    def __init__(self, stop: Stop, usage: Usage) -> None:
        super().__init__(stop.message)
        self.stop = stop
        self.usage = usage


@dataclass(frozen=True)
class Spoken(Generic[Answer]):
    """What the model said, read, and what it cost."""

    answer: Answer
    usage: Usage


def speak(
    request: Request,
    parse: Callable[[str], Answer],
    *,
    node_context: NodeContext,
    state: Account,
    tools: Sequence[BaseTool] = (),
    first_exchange: int | None = None,
    model: str = "",
) -> Spoken[Answer]:
    """Put `request` to its role's model, or to `model`, and read the answer with `parse`, which must be pure: it runs
    twice.

    The model may call `tools`, `max_tool_calls` times in all. An `AnswerError` or `PatchError` from `parse` goes back
    to it, `max_reasks` times. Raises `TurnEndedError` after that, and where a budget of the run (`state`) is spent
    before a step. Exchanges are numbered from `first_exchange`, else on from the run's. Within a run with checkpoints a
    turn that was killed goes on after its last finished step.
    """
    context = TurnContext(
        prompt=messages_for(request),
        parse=parse,
        model=node_context.model(request.role, model),
        tools=tuple(tools),
        settings=node_context.settings,
        run=state,
        first_exchange=state.usage.calls if first_exchange is None else first_exchange,
    )
    # As plain data: the checkpoint of a beginning turn then needs no type of its own to be read.
    begun: Any = {"role": request.role}
    turn = TurnState.model_validate(node_context.turn.invoke(begun, context=context))
    if turn.stop is not None:
        raise TurnEndedError(turn.stop, turn.usage)
    return Spoken(parse(str(turn.messages[-1].text)), turn.usage)


# -- What the four agents that speak to a model have in common: their request, and a turn that ends the run -----------


def request_for(
    role: Speaker, state: RunState, node_context: NodeContext, tools: Sequence[BaseTool], **facts: Any
) -> Request:
    """The request of one role: the task, the machine, the history, what is left, and the role's own `facts`."""
    left = Left(
        depth=state.depth,
        max_depth=node_context.settings.max_depth,
        kept=gains(state.history),
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


def author(role: Voice, node_context: NodeContext, usage: Usage, model: str = "") -> str:
    """How a kernel names who wrote it: "agent:model". Where one model went on for another, it is that one."""
    model = usage.fell_back[-1].answered_by if usage.fell_back else model or node_context.settings.model_for(role)
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


# -- Which tools an agent may call while it thinks --------------------------------------------------------------------


def tools_for(
    role: Voice,
    state: JudgedRun,
    node_context: NodeContext,
    *,
    present: Candidate | None = None,
    profiled: bool = False,
) -> tuple[BaseTool, ...]:
    """The role's tools, which take edits of the `present` kernel; profiling only where the depth gate is open.

    None where the settings allow no call.
    """
    if node_context.settings.max_tool_calls == 0:
        return ()
    kernel, look_up = node_context.tools(state, present=present), LOOK_UP[require(state.target, "target")]
    match role:
        case "generator" | "repairer" | "proposer":
            return (look_up, kernel.compile_kernel)
        case "diagnoser":
            return (look_up, kernel.compile_kernel, kernel.run_kernel, kernel.sanitize_kernel)
        case "verifier" | "summarizer" | "reviewer":
            return ()
        case "optimizer":
            quick = node_context.tools(state, quick=True, incumbent=present, present=present)
            measuring = (quick.time_kernel, *([kernel.profile_kernel] if profiled else []))
            return (look_up, kernel.compile_kernel, kernel.run_kernel, *measuring)
