"""A streamed answer: its pieces as they come, bounded in time and size, and the message that they make."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from typing import Any
from uuid import uuid4

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    InvalidToolCall,
    ToolCall,
    ToolCallChunk,
    message_chunk_to_message,
)
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from nodes.models.endpoint_errors import OutOfTimeError

MAX_ANSWER_CHARS = 1_000_000


def in_time(chunks: Iterator[ChatGenerationChunk], seconds: float) -> Iterator[ChatGenerationChunk]:
    """The pieces as they come. Raises `OutOfTimeError`, and `ValueError` for none and for far too many."""
    deadline = time.monotonic() + seconds
    length, empty = 0, True
    for chunk in chunks:
        if time.monotonic() > deadline:
            raise OutOfTimeError
        length += _length(chunk)
        if length > MAX_ANSWER_CHARS:
            raise ValueError(f"an answer of more than {MAX_ANSWER_CHARS} characters")
        empty = False
        yield chunk
    if empty:
        raise ValueError("no event of the stream was one of a chat completion")


def _length(chunk: ChatGenerationChunk) -> int:
    """Characters of text and of tool calls' arguments."""
    return len(chunk.text) + sum(len(call["args"] or "") for call in _parts(chunk))


def _parts(chunk: ChatGenerationChunk) -> list[ToolCallChunk]:
    return chunk.message.tool_call_chunks if isinstance(chunk.message, AIMessageChunk) else []


def take_calls(event: dict[str, Any]) -> list[ToolCallChunk]:
    """Take the parts of tool calls out of an event of the stream.

    LangChain would parse each part, and their sum, as JSON that broke off, one character shorter at a time until it
    fits: 500 kB that are no JSON cost it a quarter of an hour.
    """
    taken: list[ToolCallChunk] = []
    for choice in event.get("choices") or ():
        for call in (choice.get("delta") or {}).pop("tool_calls", None) or ():
            function = call["function"]
            taken.append(
                ToolCallChunk(
                    type="tool_call_chunk",
                    index=call.get("index"),
                    id=call.get("id"),
                    name=function.get("name"),
                    args=function.get("arguments"),
                )
            )
    return taken


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
    """The answer that the pieces make. Arguments that broke off are not completed: half a kernel is no kernel."""
    pieces = list(chunks)
    first, *rest = map(_without_calls, pieces)
    whole = first + rest if rest else first
    message = message_chunk_to_message(whole.message)
    if isinstance(message, AIMessage):
        told = [(call, _object(call["args"] or "{}")) for call in _joined(map(_parts, pieces))]
        message.tool_calls = [
            ToolCall(type="tool_call", id=call["id"], name=call["name"] or "", args=found)
            for call, found in told
            if found is not None
        ]
        message.invalid_tool_calls = [
            InvalidToolCall(type="invalid_tool_call", id=call["id"], name=call["name"], args=call["args"], error=None)
            for call, found in told
            if found is None
        ]
    return ChatResult(generations=[ChatGeneration(message=message, generation_info=whole.generation_info)])


def _without_calls(piece: ChatGenerationChunk) -> ChatGenerationChunk:
    """A copy: who was told of the piece still has it."""
    message = piece.message.model_copy(update={"tool_call_chunks": []}) if _parts(piece) else piece.message
    return piece.model_copy(update={"message": message})


def _joined(told: Iterator[list[ToolCallChunk]]) -> list[ToolCallChunk]:
    """The calls that the parts make. A part goes on with the last call of its index unless it has another's id."""
    calls: list[list[ToolCallChunk]] = []
    latest: dict[int | None, list[ToolCallChunk]] = {}
    for part in chain.from_iterable(told):
        call = latest.get(part["index"]) if part["index"] is not None else None
        if call is None or (part["id"] and call[0]["id"] and part["id"] != call[0]["id"]):
            call = latest[part["index"]] = []
            calls.append(call)
        call.append(part)
    return [_one(call) for call in calls]


def _one(parts: list[ToolCallChunk]) -> ToolCallChunk:
    return ToolCallChunk(
        type="tool_call_chunk",
        index=parts[0]["index"],
        id=next((part["id"] for part in parts if part["id"]), None),
        name="".join(part["name"] or "" for part in parts),
        args="".join(part["args"] or "" for part in parts),
    )


def _object(text: str) -> dict[str, Any] | None:
    """The JSON object that a text is, if it is one."""
    with suppress(ValueError):
        found = json.loads(text)
        return found if isinstance(found, dict) else None
    return None
