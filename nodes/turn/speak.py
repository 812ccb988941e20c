"""Put a question to the model of a role and take its answer: the front of a turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from langchain_core.tools import BaseTool

from nodes.node_context import NodeContext
from nodes.protocols import Account
from nodes.state import Stop, Usage
from nodes.turn.agent_loop import TurnContext, TurnState
from nodes.turn.prompts import messages_for
from nodes.turn.request import Request

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
) -> Spoken[Answer]:
    """Put `request` to the model of its role and read the answer with `parse`, which must be pure: it runs twice.

    The model may call `tools`, `max_tool_calls` times in all. An `AnswerError` or `PatchError` from `parse` goes back
    to it, `max_reasks` times. Raises `TurnEndedError` after that, and where a budget of the run (`state`) is spent
    before a step. Exchanges are numbered from `first_exchange`, else on from the run's. Within a run with checkpoints a
    turn that was killed goes on after its last finished step.
    """
    context = TurnContext(
        prompt=messages_for(request),
        parse=parse,
        model=node_context.model(request.role),
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
