"""What the models and their tools are doing while a run waits for them, and what they have cost so far."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from tenacity import RetryCallState

from graph.runs.progress import Listener, Speech
from nodes.models.usage import usage_of
from nodes.state import Usage


class Meter(BaseCallbackHandler):
    """Follows the model calls of one run and tells the listeners; `usage` is what had been used before."""

    def __init__(self, listeners: Sequence[Listener], usage: Usage) -> None:
        self._listeners = listeners
        self._usage = usage
        self._silent_since: float | None = None
        self._pieces = 0
        self._characters = 0
        self._tried = 0
        self._tool = ""

    def on_chat_model_start(self, *_: Any, **__: Any) -> None:
        """A question was put."""
        self._silent_since, self._pieces, self._characters, self._tried = time.monotonic(), 0, 0, 0
        self._tell()

    def on_llm_new_token(self, token: str | list[str | dict[str, Any]], **_: Any) -> None:
        """A piece of an answer came in."""
        self._silent_since = time.monotonic()
        self._pieces += 1
        self._characters += len(token)
        self._tell()

    def on_retry(self, retry_state: RetryCallState, **_: Any) -> None:
        """An endpoint failed and is asked again after a pause."""
        self._pieces, self._characters, self._tried = 0, 0, retry_state.attempt_number
        self._tell()

    def on_llm_end(self, response: LLMResult, **_: Any) -> None:
        """An answer is whole."""
        [[generation]] = response.generations
        if isinstance(generation, ChatGeneration) and isinstance(generation.message, AIMessage):
            self._usage += usage_of(generation.message)
        self._silent_since, self._tried = None, 0
        self._tell()

    def on_llm_error(self, error: BaseException, **_: Any) -> None:
        """No answer came."""
        self._silent_since = None
        self._tell()

    def on_tool_start(self, serialized: dict[str, Any], *_: Any, **__: Any) -> None:
        """A tool was called, by a model or by an agent."""
        self._tool = serialized["name"]
        self._tell()

    def on_tool_end(self, *_: Any, **__: Any) -> None:
        """A tool has answered."""
        self._tool = ""
        self._tell()

    def on_tool_error(self, *_: Any, **__: Any) -> None:
        """A tool has failed or refused."""
        self.on_tool_end()

    def _tell(self) -> None:
        speech = Speech(
            silent_since=self._silent_since,
            pieces=self._pieces,
            characters=self._characters,
            failed_tries=self._tried,
            usage=self._usage,
            tool=self._tool,
        )
        for listener in self._listeners:
            listener.heard(speech)
