"""A streamed answer: its pieces as they come, bounded in time and size, and the message that they make."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from uuid import uuid4

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.messages import AIMessage, AIMessageChunk, InvalidToolCall, ToolCall, message_chunk_to_message
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from nodes.models.endpoint_errors import EndlessStreamError

MAX_ANSWER_CHARS = 1_000_000


def in_time(chunks: Iterator[ChatGenerationChunk], seconds: float) -> Iterator[ChatGenerationChunk]:
    """The pieces as they come. Raises `EndlessStreamError`, and `ValueError` for none and for far too many."""
    deadline = time.monotonic() + seconds
    length, empty = 0, True
    for chunk in chunks:
        if time.monotonic() > deadline:
            raise EndlessStreamError
        length += _length(chunk)
        if length > MAX_ANSWER_CHARS:
            raise ValueError(f"an answer of more than {MAX_ANSWER_CHARS} characters")
        empty = False
        yield chunk
    if empty:
        raise ValueError("no event of the stream was one of a chat completion")


def _length(chunk: ChatGenerationChunk) -> int:
    """Characters of text and of tool calls' arguments."""
    calls = chunk.message.tool_call_chunks if isinstance(chunk.message, AIMessageChunk) else []
    return len(chunk.text) + sum(len(call["args"] or "") for call in calls)


def told(
    chunks: Iterator[ChatGenerationChunk], run_manager: CallbackManagerForLLMRun | None
) -> Iterator[ChatGenerationChunk]:
    """Tell the callbacks of each piece, under one id: who shows them knows by it that they are one message."""
    answer = f"answer-{uuid4()}"
    for chunk in chunks:
        chunk.message.id = answer
        if run_manager:
            run_manager.on_llm_new_token(chunk.text, chunk=chunk)
        yield chunk


def whole(chunks: Iterator[ChatGenerationChunk]) -> ChatResult:
    """The answer that the pieces make.

    LangChain would complete a tool call's arguments that broke off. Half a kernel is no kernel: such a call goes back.
    """
    first, *rest = chunks
    whole = first + rest if rest else first
    message = message_chunk_to_message(whole.message)
    if isinstance(whole.message, AIMessageChunk) and isinstance(message, AIMessage):
        pieces = whole.message.tool_call_chunks
        told = [(piece, _object(piece["args"] or "{}")) for piece in pieces]
        message.tool_calls = [
            ToolCall(type="tool_call", id=piece["id"], name=piece["name"] or "", args=found)
            for piece, found in told
            if found is not None
        ]
        message.invalid_tool_calls = [
            InvalidToolCall(
                type="invalid_tool_call", id=piece["id"], name=piece["name"], args=piece["args"], error=None
            )
            for piece, found in told
            if found is None
        ]
    return ChatResult(generations=[ChatGeneration(message=message, generation_info=whole.generation_info)])


def _object(text: str) -> dict[str, Any] | None:
    """The JSON object that a text is, if it is one."""
    with suppress(ValueError):
        found = json.loads(text)
        return found if isinstance(found, dict) else None
    return None
