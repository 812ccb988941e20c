"""The base of models that answer inside this process, from the request that travels with the prompt."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Annotated, Any, ClassVar

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models.base import LanguageModelInput
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from pydantic import Field, PrivateAttr

from nodes.models.errors import ScriptExhaustedError
from nodes.request import Request
from nodes.roles import Voice


def request_of(messages: Sequence[BaseMessage]) -> Request:
    """The request attached to the last human message that carries one.

    A prompt that was asked again carries it further up, before the model's own bad answer.
    Raises `ValueError` where no message does: the caller forgot to attach it.
    """
    for message in reversed(messages):
        if isinstance(message, HumanMessage) and isinstance(
            attached := message.additional_kwargs.get("request"), Request
        ):
            return attached
    raise ValueError('no human message carries additional_kwargs["request"], which this model answers from')


class LocalModel(BaseChatModel):
    """Answers without a network and without cost. Subclasses say what; an answer is a text or a whole message."""

    # A cache that the surrounding program installs for LangChain would turn a script's second answer into its first.
    cache: bool | None = False

    # Models that can call tools say so here; the others answer without, as `BaseChatModel.bind_tools` makes known.
    calls_tools: ClassVar[bool] = False

    def bind_tools(
        self, tools: Sequence[Any], *, tool_choice: str | None = None, **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """The model itself: it knows the tools, or answers without."""
        if not self.calls_tools:
            raise NotImplementedError(f"{self._llm_type} calls no tools")
        return self

    @abstractmethod
    def respond(self, messages: Sequence[BaseMessage]) -> AIMessage:
        """The answer to these messages."""

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self.respond(messages))])


# -- A model that says what it was told to say: for tests and demonstrations of the real graph ------------------------


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
