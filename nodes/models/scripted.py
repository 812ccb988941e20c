"""A model that says what it was told to say: for tests and demonstrations of the real graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, ClassVar

from langchain_core.messages import AIMessage, BaseMessage
from pydantic import Field, PrivateAttr

from nodes.models.errors import ScriptExhaustedError
from nodes.models.local import LocalModel, request_of
from nodes.roles import Voice
from nodes.turn.request import Request

# In this order: a message asked to take in a function fails badly.
Answer = Annotated[str | Callable[[Request], str | AIMessage] | AIMessage, Field(union_mode="left_to_right")]


class ScriptedModel(LocalModel):
    """Gives `answers` one after the other: one list for all roles, or a list a role.

    An answer may be a whole message, with tool calls, or a function of the request. Past the end it raises
    `ScriptExhaustedError`, or, with `repeat_last`, goes on with the last answer. `requests` keeps every request it got,
    so that a test can see what an agent was shown.
    """

    calls_tools: ClassVar[bool] = True
    answers: dict[Voice, list[Answer]] | list[Answer]
    repeat_last: bool = False
    _requests: list[Request] = PrivateAttr(default_factory=list)

    @property
    def requests(self) -> tuple[Request, ...]:
        """Every request so far, in order."""
        return tuple(self._requests)

    def calls(self, role: Voice | None = None) -> int:
        """How often the model was asked, in all or by one role."""
        return sum(role is None or request.role == role for request in self._requests)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def respond(self, messages: Sequence[BaseMessage]) -> AIMessage:
        """The next answer for the role that asks."""
        request = request_of(messages)
        answer = self._next(request.role)
        self._requests.append(request)
        given = answer if isinstance(answer, str | AIMessage) else answer(request)
        return AIMessage(given) if isinstance(given, str) else given

    def _next(self, role: Voice) -> Answer:
        if isinstance(self.answers, dict):
            script, position, whose = self.answers.get(role, []), self.calls(role), f"the {role}"
        else:
            script, position, whose = self.answers, self.calls(), "all roles"
        if position < len(script):
            return script[position]
        if self.repeat_last and script:
            return script[-1]
        raise ScriptExhaustedError(
            f"The {role} asked the scripted model once more, but its script for {whose} has only {len(script)} answers."
        )
