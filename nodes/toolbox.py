"""Which tools an agent may call while it thinks, and how one call is served."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from langchain_core.messages import AIMessage, InvalidToolCall, ToolCall, ToolMessage
from langchain_core.tools import BaseTool
from pydantic import ValidationError

from nodes.roles import Speaker
from nodes.state import RunState
from nodes.workshop import Workshop
from tools.library_tool import LOOK_UP

MAX_ANSWER_CHARS = 8000

_ON_THE_DEVICE = frozenset(("run_kernel", "profile_kernel"))


@dataclass(frozen=True)
class Served:
    """A tool's answer, and the seconds for which it held the device."""

    message: ToolMessage
    device_seconds: float = 0.0


def tools_for(role: Speaker, state: RunState, workshop: Workshop, *, profiled: bool = False) -> tuple[BaseTool, ...]:
    """The role's tools; profiling only where the depth gate is open. None where the settings allow no call."""
    if workshop.settings.max_tool_calls == 0:
        return ()
    kernel = workshop.tools(state)
    match role:
        case "generator" | "repairer":
            return (LOOK_UP, kernel.compile_kernel)
        case "diagnoser":
            return (LOOK_UP, kernel.compile_kernel, kernel.run_kernel)
        case "optimizer":
            return (LOOK_UP, kernel.compile_kernel, kernel.run_kernel, *([kernel.profile_kernel] if profiled else []))


def calls_of(message: AIMessage) -> Sequence[ToolCall | InvalidToolCall]:
    """Every call of a message, those whose arguments cannot be read included: each one needs an answer."""
    return (*message.tool_calls, *message.invalid_tool_calls)


def serve(call: ToolCall | InvalidToolCall, tools: Sequence[BaseTool]) -> Served:
    """Run one call. What is wrong with it is said to the model; `MachineError` goes upward."""
    tool = next((tool for tool in tools if tool.name == call["name"]), None)
    if tool is None:
        names = ", ".join(tool.name for tool in tools)
        return refuse(call, f"There is no tool {call['name']!r}. There are: {names}.")
    arguments = call["args"]
    if not isinstance(arguments, dict):
        return refuse(call, f"The arguments of {tool.name} are no JSON object.")
    started = time.monotonic()
    try:
        answer = tool.invoke({"type": "tool_call", "id": call["id"] or "", "name": tool.name, "args": arguments})
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        return refuse(call, f"{tool.name}: {'.'.join(map(str, problem['loc']))}: {problem['msg']}")
    held = time.monotonic() - started if tool.name in _ON_THE_DEVICE else 0.0
    return Served(_answer(call, str(answer.text)), held)


def refuse(call: ToolCall | InvalidToolCall, why: str) -> Served:
    """The answer to a call that is not run."""
    return Served(_answer(call, why))


def _answer(call: ToolCall | InvalidToolCall, text: str) -> ToolMessage:
    cut = text if len(text) <= MAX_ANSWER_CHARS else f"{text[:MAX_ANSWER_CHARS]}\n({len(text)} characters; cut here)"
    return ToolMessage(cut, tool_call_id=call["id"] or "", name=call["name"] or "")
