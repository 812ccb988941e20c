"""One agent's turn: ask, serve the tools the model calls, read the answer, send an unusable one back. All bounded."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from langchain_core.language_models.base import LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool

from nodes.answers import AnswerError
from nodes.models.conversation import exchange
from nodes.models.usage import usage_of
from nodes.prompts import messages_for
from nodes.recording import record
from nodes.request import Request
from nodes.state import RunState, Stop, Usage
from nodes.stops import over_budget
from nodes.toolbox import calls_of, refuse, serve
from nodes.workshop import Workshop
from tools.patch import PatchError

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
    workshop: Workshop,
    state: RunState,
    tools: Sequence[BaseTool] = (),
) -> Spoken[Answer]:
    """Put `request` to the model of its role and read the answer with `parse`.

    The model may call `tools`, `max_tool_calls` times in all. An `AnswerError` or `PatchError` from `parse` goes back
    to it, `max_reasks` times. Raises `TurnEndedError` after that, and where a budget of the run (`state`) is spent
    between two calls.
    """
    turn = _Turn(request, workshop, state, tools)
    while True:
        text = turn.ask()
        try:
            return Spoken(parse(text), turn.usage)
        except (AnswerError, PatchError) as error:
            turn.reject(text, error)


class _Turn:
    """The messages of one turn, what they cost, and what is still allowed."""

    def __init__(self, request: Request, workshop: Workshop, state: RunState, tools: Sequence[BaseTool]) -> None:
        self.usage = Usage()
        self._request = request
        self._settings = workshop.settings
        self._state = state
        self._tools = tools
        self._messages: list[BaseMessage] = list(messages_for(request))
        self._calls_left = self._settings.max_tool_calls if tools else 0
        self._rejected = 0
        self._model = workshop.model(request.role)
        self._with_tools = self._bound("auto") if tools else self._model
        self._tools_named = self._bound("none") if tools else self._model

    def ask(self) -> str:
        """The next answer that is text, with every tool call before it served."""
        while True:
            message = self._invoke()
            if not calls_of(message):
                return str(message.text)
            self._serve(message)

    def reject(self, text: str, error: Exception) -> None:
        """Send an unusable answer back, or end the turn."""
        self._rejected += 1
        if self._rejected > self._settings.max_reasks:
            raise TurnEndedError(Stop(name="model_unusable", message=self._given_up(error)), self.usage) from error
        self._messages += [
            AIMessage(text),
            HumanMessage(f"Your answer cannot be used.\n{error}\nAnswer again, complete."),
        ]

    def _invoke(self) -> AIMessage:
        self._stop_over_budget()
        model = self._with_tools if self._calls_left else self._tools_named
        started = time.monotonic()
        message = model.invoke(self._messages)
        cost = usage_of(message, time.monotonic() - started)
        if self._settings.run_dir:
            index = self._state.usage.calls + self.usage.calls
            record(self._settings.run_dir, exchange(index, self._request.role, self._messages, message, cost))
        self.usage += cost
        return message

    def _serve(self, message: AIMessage) -> None:
        self._messages.append(message)
        for call in calls_of(message):
            if self._calls_left:
                self._calls_left -= 1
                served = serve(call, self._tools)
            else:
                served = refuse(call, "No tool call is left in this turn. Give your answer now.")
            self._messages.append(served.message)
            self.usage += Usage(device_seconds=served.device_seconds)

    def _stop_over_budget(self) -> None:
        """Only between two calls of a turn: before the first one the graph's own edges have looked."""
        if self.usage.calls == 0:
            return
        spent = {"usage": self._state.usage + self.usage, "seconds": self._state.seconds + self.usage.seconds}
        stop = over_budget(self._state.model_copy(update=spent), self._settings)
        if stop is not None:
            raise TurnEndedError(stop, self.usage)

    def _bound(self, choice: str) -> Runnable[LanguageModelInput, AIMessage]:
        """The model with the tools made known to it. One that cannot call tools answers without."""
        try:
            return self._model.bind_tools(self._tools, tool_choice=choice)
        except NotImplementedError:
            return self._model

    def _given_up(self, error: Exception) -> str:
        last = str(error).splitlines()[0]
        return (
            f"The {self._request.role}'s model gave {self._rejected} answers in a row that cannot be used; "
            f"the last one: {last}"
        )
