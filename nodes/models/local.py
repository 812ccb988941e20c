"""The base of models that answer inside this process, from the request that travels with the prompt."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models.base import LanguageModelInput
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable

from nodes.turn.request import Request


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
