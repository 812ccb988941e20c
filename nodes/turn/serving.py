"""How one tool call of a model is served."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from langchain_core.messages import AIMessage, BaseMessage, InvalidToolCall, ToolCall, ToolMessage
from langchain_core.tools import BaseTool, ToolException
from pydantic import ValidationError

from harness.judging.device_lock import held_s

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
