"""What models and tools do while a node waits for them, told as events."""

from __future__ import annotations

import time
from contextvars import ContextVar
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.tracers.context import register_configure_hook
from tenacity import RetryCallState

from harness.wire.telling import tell
from nodes.events import Answered, Answering, Asked, ToolEnded, ToolStarted
from nodes.models.usage import usage_of
from nodes.state import Usage

EVERY_S = 0.2
"""Between two words on how far an answer is: pieces come by the hundred a second."""


class Hearing(BaseCallbackHandler):
    """Tells of the model calls and tool calls of one node."""

    def __init__(self) -> None:
        self._pieces = self._characters = 0
        self._tools: dict[Any, str] = {}
        self._next_s = 0.0

    def on_chat_model_start(self, *_: Any, **__: Any) -> None:
        """A question was put."""
        self._asked(0)

    def on_llm_new_token(self, token: str | list[str | dict[str, Any]], **_: Any) -> None:
        """A piece of an answer came in."""
        self._pieces += 1
        self._characters += len(token)
        if (now := time.monotonic()) >= self._next_s:
            self._next_s = now + EVERY_S
            tell(Answering(pieces=self._pieces, characters=self._characters))

    def on_retry(self, retry_state: RetryCallState, **_: Any) -> None:
        """An endpoint failed and is asked again after a pause."""
        self._asked(retry_state.attempt_number)

    def on_llm_end(self, response: LLMResult, **_: Any) -> None:
        """An answer is whole."""
        [[generation]] = response.generations
        message = generation.message if isinstance(generation, ChatGeneration) else None
        tell(Answered(usage=usage_of(message) if isinstance(message, AIMessage) else Usage()))

    def on_llm_error(self, error: BaseException, **_: Any) -> None:
        """No answer came."""
        tell(Answered(failed=True))

    def on_tool_start(self, serialized: dict[str, Any], *_: Any, run_id: Any = None, **__: Any) -> None:
        """A tool was called, by a model or by an agent."""
        self._tools[run_id] = serialized["name"]
        tell(ToolStarted(tool=serialized["name"]))

    def on_tool_end(self, *_: Any, run_id: Any = None, **__: Any) -> None:
        """A tool has answered."""
        tell(ToolEnded(tool=self._tools.pop(run_id, "")))

    def on_tool_error(self, *_: Any, run_id: Any = None, **__: Any) -> None:
        """A tool has failed or refused."""
        self.on_tool_end(run_id=run_id)

    def _asked(self, failed_tries: int) -> None:
        self._pieces, self._characters, self._next_s = 0, 0, 0.0
        tell(Asked(failed_tries=failed_tries))


hearing: ContextVar[BaseCallbackHandler | None] = ContextVar("hearing", default=None)
"""Who hears every model and every tool that is called in this context."""
register_configure_hook(hearing, inheritable=True)
