"""One agent's turn as a graph of two nodes: speak, serve one tool call, speak again. Each is checkpointed by itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from operator import add
from pathlib import Path
from threading import Lock
from typing import Annotated, Any, BinaryIO, Literal

from langchain_core.language_models.base import LanguageModelInput
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    InvalidToolCall,
    ToolCall,
    ToolMessage,
)
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool, ToolException
from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from pydantic import BaseModel, ConfigDict, ValidationError

from harness.judging.device_lock import held_s
from harness.nouns.errors import MachineError
from harness.nouns.reading import cause
from harness.wire.stopping import raise_if_stopped
from nodes.models.errors import ModelUnavailableError, within
from nodes.models.local import LocalModel
from nodes.models.replay import Exchange, exchange
from nodes.prompt_words import whole_characters
from nodes.protocols import Account, with_turn
from nodes.roles import Voice
from nodes.settings import Settings
from nodes.state import Stop, Usage
from nodes.stops import over_budget
from nodes.turn.answers import AnswerError, echo, echo_calls, read
from nodes.turn.forms import response_format
from nodes.usage import usage_of
from tools.kernel_tools import KERNEL_TOOLS
from tools.patch import PatchError


class TurnState(BaseModel):
    """What a turn has come to; the run's own checkpoints never hold it.

    `messages` are what was said after the prompt, which is rendered again from the run where a killed turn goes on.
    They are appended as they come: LangGraph's own reducer for messages writes ids into them, and would take an answer
    that a script gives twice for one. `seconds` is the time of all steps; of the tool calls some were allowed, and the
    others `refused`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    role: Voice
    messages: Annotated[list[AnyMessage], add] = []
    tool_calls: Annotated[int, add] = 0
    refused: Annotated[int, add] = 0
    rejected: Annotated[int, add] = 0
    usage: Annotated[Usage, add] = Usage()
    seconds: Annotated[float, add] = 0.0
    answered: bool = False
    stop: Stop | None = None


@dataclass(frozen=True)
class TurnContext:
    """What a turn works with and does not change: none of it is checkpointed.

    `parse` raises `AnswerError` or `PatchError` for an answer that cannot be used; `run` is the run as it was when the
    agent's turn came. `first_exchange` is the number of the turn's first one in the conversation.
    """

    prompt: tuple[BaseMessage, ...]
    parse: Callable[[str], object]
    model: BaseChatModel
    tools: tuple[BaseTool, ...]
    settings: Settings
    run: Account
    first_exchange: int = 0


TurnUpdate = dict[str, Any]
TurnGraph = CompiledStateGraph[TurnState, TurnContext, TurnState, TurnState]


def speak(state: TurnState, *, runtime: Runtime[TurnContext]) -> TurnUpdate:
    """Ask the model once; read the answer where it is one, and send it back where it cannot be used."""
    context = runtime.context
    if stop := _over(state, context):
        return {"stop": stop}
    began = time.monotonic()
    try:
        with within(context.settings.max_wall_s - context.run.seconds - state.seconds):
            message, cost = _asked(state, context)
    except ModelUnavailableError as error:
        # An endpoint that used up the run's time, or its money, has not failed the run: it has ended it.
        seconds = time.monotonic() - began
        spent = {"seconds": state.seconds + seconds, "usage": state.usage + error.lost}
        if stop := _over(state.model_copy(update=spent), context):
            return {"stop": stop, "seconds": seconds, "usage": error.lost}
        raise
    update = {"messages": [echo_calls(message)]} if unanswered([message]) else _read(state, context, message)
    return {**update, "usage": cost, "seconds": time.monotonic() - began}


def tools(state: TurnState, *, runtime: Runtime[TurnContext]) -> TurnUpdate:
    """Serve the first call that has no answer yet. One a step: a kernel is neither built nor run twice after a kill."""
    context = runtime.context
    if stop := _over(state, context):
        return {"stop": stop}
    began = time.monotonic()
    call = unanswered(state.messages)[0]
    allowed = _calls_left(state, context) > 0
    if state.refused > context.settings.max_tool_calls + context.settings.max_reasks:
        return {
            "stop": Stop(name="model_unusable", message=f"The {state.role}'s model calls tools and gives no answer.")
        }
    served: Served = (
        serve(call, context.tools)
        if allowed
        else refuse(call, "No tool call is left in this turn. Give your answer now.")
    )
    left = [f"(Tool calls left: {_calls_left(state, context) - 1}.)"] if allowed else []
    said = "\n".join([str(served.message.text), *left])
    return {
        "messages": [served.message.model_copy(update={"content": said})],
        "tool_calls": int(allowed),
        "refused": int(not allowed),
        "usage": Usage(device_seconds=served.device_seconds, builds=served.builds),
        "seconds": time.monotonic() - began,
    }


def route(turn: TurnState) -> Literal["speak", "tools", "__end__"]:
    """From either node: calls are served, an answer or a spent budget ends the turn, anything else is asked again."""
    if turn.answered or turn.stop:
        return "__end__"
    return "tools" if unanswered(turn.messages) else "speak"


def build_turn() -> TurnGraph:
    """The graph of a turn. It shares its caller's checkpointer, under a name of its own for each turn."""
    # No context schema: a server would offer it as a form, and a model is none.
    graph: StateGraph[TurnState, TurnContext, TurnState, TurnState] = StateGraph(TurnState)
    graph.add_node("speak", speak, metadata={"description": "Asks the agent's model once."})
    graph.add_node("tools", tools, metadata={"description": "Serves one tool call of the model."})
    graph.add_edge(START, "speak")
    graph.add_conditional_edges("speak", route)
    graph.add_conditional_edges("tools", route)
    return graph.compile(name="turn")


def _asked(turn: TurnState, context: TurnContext) -> tuple[AIMessage, Usage]:
    raise_if_stopped()
    messages = [*context.prompt, *turn.messages]
    started = time.monotonic()
    message = whole_characters(_speaker(turn, context).invoke(messages))
    cost = usage_of(message, time.monotonic() - started)
    if context.settings.run_dir:
        index = context.first_exchange + turn.usage.calls
        record(context.settings.run_dir, exchange(index, turn.role, messages, message, cost))
    return message, cost


def _read(turn: TurnState, context: TurnContext, message: AIMessage) -> TurnUpdate:
    """Whether the answer can be used; what is wrong with it goes back to the model, `max_reasks` times."""
    try:
        read(message, context.parse)
    except (AnswerError, PatchError) as error:
        rejected = turn.rejected + 1
        if rejected > context.settings.max_reasks:
            return {"rejected": 1, "stop": Stop(name="model_unusable", message=_given_up(turn.role, rejected, error))}
        complaint = HumanMessage(f"Your answer cannot be used.\n{error}\nAnswer again, complete.")
        return {"rejected": 1, "messages": [AIMessage(echo(message), id=message.id), complaint]}
    return {"messages": [AIMessage(str(message.text), id=message.id)], "answered": True}


def _over(turn: TurnState, context: TurnContext) -> Stop | None:
    """The budget that is spent, if one is: asked before each step, for not every edge that leads here has looked."""
    return over_budget(with_turn(context.run, turn.usage, turn.seconds), context.settings)


def _calls_left(turn: TurnState, context: TurnContext) -> int:
    return max(0, context.settings.max_tool_calls - turn.tool_calls) if context.tools else 0


def _speaker(turn: TurnState, context: TurnContext) -> Runnable[LanguageModelInput, AIMessage]:
    """The model with the tools made known to it. One that cannot call tools answers without.

    An endpoint is told of every agent's tools: providers put them before the messages, and where they differed nothing
    of a prompt would be cached across roles. The prompt says which ones this agent may call.
    """
    local, form = isinstance(context.model, LocalModel), response_format(turn.role)
    held = {"response_format": form} if context.settings.structured_outputs and form and not local else {}
    if not context.tools:
        return context.model.bind(**held) if held else context.model
    choice = "auto" if _calls_left(turn, context) else "none"
    offered = context.tools if local else _every_tool(context.tools)
    try:
        return context.model.bind_tools(offered, tool_choice=choice, **held)
    except NotImplementedError:
        return context.model


def _every_tool(allowed: Sequence[BaseTool]) -> tuple[BaseTool, ...]:
    known = {tool.name: tool for tool in (*KERNEL_TOOLS, *allowed)}
    return tuple(known[name] for name in sorted(known))


def _given_up(role: Voice, rejected: int, error: Exception) -> str:
    last = str(error).splitlines()[0]
    return f"The {role}'s model gave {rejected} answers in a row that cannot be used; the last one: {last}"


TURN: TurnGraph = build_turn()


# -- How one tool call of a model is served ---------------------------------------------------------------------------


MAX_ANSWER_CHARS = 8000


@dataclass(frozen=True)
class Served:
    """A tool's answer, the seconds for which it held the device, and the builds that it asked for, known ones too."""

    message: ToolMessage
    device_seconds: float = 0.0
    builds: int = 0


def unanswered(messages: Sequence[BaseMessage]) -> Sequence[ToolCall | InvalidToolCall]:
    """The calls that wait for an answer, in their order: those of the last message that made any.

    Calls whose arguments cannot be read are among them: each one needs an answer.
    """
    after = list(takewhile(lambda message: isinstance(message, ToolMessage), reversed(messages)))
    last = messages[-1 - len(after)] if len(after) < len(messages) else None
    if not isinstance(last, AIMessage):
        return ()
    calls: Sequence[ToolCall | InvalidToolCall] = (*last.tool_calls, *last.invalid_tool_calls)
    return calls[len(after) :]


def serve(call: ToolCall | InvalidToolCall, tools: Sequence[BaseTool]) -> Served:
    """Run one call. What is wrong with it is said to the model; `MachineError` goes upward."""
    tool = next((tool for tool in tools if tool.name == call["name"]), None)
    if tool is None:
        names = ", ".join(tool.name for tool in tools)
        return refuse(call, f"There is no tool {call['name']!r}. There are: {names}.")
    arguments = call["args"]
    if not isinstance(arguments, dict):
        return refuse(call, _why_unread(call) or f"The arguments of {tool.name} are no JSON object.")
    before = held_s()
    try:
        answer = tool.invoke({"type": "tool_call", "id": call["id"] or "", "name": tool.name, "args": arguments})
        words = str(answer.text)
    except ValidationError as error:
        problem = error.errors()[0]
        return refuse(call, f"{tool.name}: {'.'.join(map(str, problem['loc']))}: {problem['msg']}")
    except ToolException as error:
        words = str(error)
    return Served(_answer(call, words), held_s() - before, int("source" in arguments))


def refuse(call: ToolCall | InvalidToolCall, why: str) -> Served:
    """The answer to a call that is not run."""
    return Served(_answer(call, why))


def _why_unread(call: ToolCall | InvalidToolCall) -> str:
    """What the model that made the call says is wrong with it; most say nothing."""
    return call["error"] or "" if call["type"] == "invalid_tool_call" else ""


def _answer(call: ToolCall | InvalidToolCall, text: str) -> ToolMessage:
    cut = text if len(text) <= MAX_ANSWER_CHARS else f"{text[:MAX_ANSWER_CHARS]}\n({len(text)} characters; cut here)"
    return ToolMessage(cut, tool_call_id=call["id"] or "", name=call["name"] or "")


# -- The record of what was said: one line of `conversation.jsonl` for each exchange with a model ---------------------


FILE_NAME = "conversation.jsonl"

_writing = Lock()


def record(run_dir: str, said: Exchange) -> None:
    """Append one exchange. Raises `MachineError` where the folder cannot be written.

    A run that was killed and resumed writes the exchange it was killed in again, under the same index.
    """
    file = Path(run_dir) / FILE_NAME
    try:
        with _writing, file.open("a+b") as stream:
            _drop_half_line(stream)
            stream.write(said.line().encode())
    except OSError as error:
        raise MachineError(
            f"Could not write {file}: {cause(error)}.",
            "Make room or the folder writable, then resume the run.",
        ) from error


def _drop_half_line(stream: BinaryIO) -> None:
    """Cut off what a kill in the middle of a write left behind the last whole line."""
    size = stream.seek(0, 2)
    if size == 0:
        return
    stream.seek(size - 1)
    if stream.read(1) == b"\n":
        return
    stream.seek(0)
    stream.truncate(stream.read().rfind(b"\n") + 1)
