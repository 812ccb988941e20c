"""An answer in pieces: what an endpoint's JSON objects say, read as data, and the message that they make together.

This is the border. Of what an endpoint sends nothing gets further but what stands in a `Piece`: bounded, of its type,
without the key. An answer in one piece comes the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any
from uuid import uuid4

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.messages import AIMessageChunk, ToolCallChunk
from langchain_core.outputs import ChatGenerationChunk

MAX_ANSWER_CHARS = 1_000_000
MAX_THOUGHT_CHARS = 4_000_000
MAX_CALLS = 100
MAX_NAME_CHARS = 200
MAX_TOKENS = 10**9
MAX_DOLLARS = 10_000.0
"""More than these for one answer is nonsense, and no count."""

_THOUGHTS = ("reasoning_content", "reasoning")
_CACHED = ("prompt_cache_hit_tokens", "cache_read_input_tokens", "cached_tokens")


@dataclass(frozen=True, slots=True)
class CallPart:
    """A part of a tool call; a whole one has no parts. Texts that are not told are empty."""

    index: int | None = None
    id: str = ""
    name: str = ""
    args: str = ""


@dataclass(frozen=True, slots=True)
class Counts:
    """Tokens of an answer as its endpoint counts them, absent where it counts nonsense; `dollars` as it bills them."""

    input: int | None = None
    cached: int | None = None
    output: int | None = None
    dollars: float | None = None


@dataclass(frozen=True, slots=True)
class Piece:
    """What one object said; or all of them together. Thoughts are counted, and their text is left there."""

    text: str = ""
    refusal: str = ""
    thought_chars: int = 0
    calls: tuple[CallPart, ...] = ()
    finish: str = ""
    counts: Counts | None = None


_NOTHING = Piece()


def read(objects: Iterable[dict[str, Any]], place: str) -> Iterator[Piece]:
    """The pieces that say something, from objects that keep them at `place`, "delta" or "message", of their choice.

    Raises `ValueError` where there is no choice in any object, and for an answer that is far too long.
    """
    length = thoughts = 0
    chosen = False
    for told in objects:
        choice = _first(told.get("choices"))
        chosen = chosen or choice is not None
        piece = _piece(told, choice or {}, place)
        if piece == _NOTHING:
            continue
        length += _length(piece)
        thoughts += piece.thought_chars
        if length > MAX_ANSWER_CHARS or thoughts > MAX_THOUGHT_CHARS:
            raise ValueError(f"an answer of more than {MAX_ANSWER_CHARS} characters")
        yield piece
    if not chosen:
        raise ValueError("no event of the stream was one of a chat completion")


def _length(piece: Piece) -> int:
    """Characters that are kept; a piece has one at least, or their number would have no end."""
    calls = sum(len(call.id) + len(call.name) + len(call.args) for call in piece.calls)
    return max(1, len(piece.text) + len(piece.refusal) + calls) if piece.thought_chars == 0 else len(piece.text)


def _piece(told: dict[str, Any], choice: dict[str, Any], place: str) -> Piece:
    said = _dict(choice.get(place))
    return Piece(
        text=_content(said.get("content")),
        refusal=_text(said.get("refusal")),
        thought_chars=sum(len(_text(said.get(name))) for name in _THOUGHTS),
        calls=tuple(_call(call) for call in _list(said.get("tool_calls")) if isinstance(call, dict)),
        finish=_text(choice.get("finish_reason"))[:MAX_NAME_CHARS],
        counts=_counts(told["usage"]) if isinstance(told.get("usage"), dict) else None,
    )


def _call(call: dict[str, Any]) -> CallPart:
    function = _dict(call.get("function"))
    return CallPart(
        index=_whole(call.get("index"), MAX_CALLS),
        id=_text(call.get("id"))[:MAX_NAME_CHARS],
        name=_text(function.get("name"))[:MAX_NAME_CHARS],
        args=_text(function.get("arguments")),
    )


def _counts(usage: dict[str, Any]) -> Counts:
    cost = usage.get("cost")
    known = isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost <= MAX_DOLLARS
    return Counts(
        input=_whole(usage.get("prompt_tokens"), MAX_TOKENS),
        cached=_whole(_cached(usage), MAX_TOKENS),
        output=_whole(usage.get("completion_tokens"), MAX_TOKENS),
        dollars=float(cost) if known and cost is not None else None,
    )


def _cached(usage: dict[str, Any]) -> object:
    """Tokens read from a cache, where one of the dialects tells them."""
    told = _dict(usage.get("prompt_tokens_details")).get("cached_tokens")
    return next((each for each in (told, *map(usage.get, _CACHED)) if each is not None), None)


def _whole(value: object, most: int) -> int | None:
    """A whole number from 0 to `most`, if it is one; 7.0 is."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        return None
    return int(value) if value == int(value) else None


def _content(value: object) -> str:
    """The text of a content, which some servers give in parts."""
    return _text(value) or "".join(_text(part.get("text")) for part in _list(value) if isinstance(part, dict))


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _first(choices: object) -> dict[str, Any] | None:
    found = _list(choices)
    return found[0] if found and isinstance(found[0], dict) else None


def noted(pieces: Iterable[Piece], counted: list[Counts]) -> Iterator[Piece]:
    """The pieces, and in `counted` what their endpoint has counted so far: an answer that breaks may be billed, too."""
    for piece in pieces:
        if piece.counts:
            counted.append(piece.counts)
        yield piece


def told(pieces: Iterable[Piece], run_manager: CallbackManagerForLLMRun | None, answer: str) -> Iterator[Piece]:
    """Tell the callbacks of each piece, under the id `answer`: who shows them knows by it that they are one message."""
    for piece in pieces:
        if run_manager:
            chunk = AIMessageChunk(content=piece.text, id=answer)
            # Given as an argument, parts of JSON would be completed, one character shorter at a time until they fit.
            chunk.tool_call_chunks = [
                ToolCallChunk(
                    type="tool_call_chunk", index=part.index, id=part.id or None, name=part.name or None, args=part.args
                )
                for part in piece.calls
            ]
            run_manager.on_llm_new_token(piece.text, chunk=ChatGenerationChunk(message=chunk))
        yield piece


def new_id() -> str:
    """An answer's id, ours: the endpoint's says nothing that anybody here needs."""
    return f"answer-{uuid4()}"


def joined_pieces(pieces: Iterable[Piece]) -> Piece:
    """The pieces as one: the first reason of the end that is told, the last counts, the calls whole."""
    all_of = [piece for piece in pieces if piece != Piece(thought_chars=piece.thought_chars)]
    return Piece(
        text="".join(piece.text for piece in all_of),
        refusal="".join(piece.refusal for piece in all_of),
        calls=tuple(_joined_calls(chain.from_iterable(piece.calls for piece in all_of))),
        finish=next((piece.finish for piece in all_of if piece.finish), ""),
        counts=next((piece.counts for piece in reversed(all_of) if piece.counts), None),
    )


def _joined_calls(parts: Iterable[CallPart]) -> Iterator[CallPart]:
    """The calls that the parts make. A part goes on with the last call of its index unless it has another's id.

    Raises `ValueError` for far too many.
    """
    calls: list[list[CallPart]] = []
    latest: dict[int, list[CallPart]] = {}
    for part in parts:
        call = latest.get(part.index) if part.index is not None else None
        if call is None or (part.id and call[0].id and part.id != call[0].id):
            call = []
            calls.append(call)
            if part.index is not None:
                latest[part.index] = call
        call.append(part)
    if len(calls) > MAX_CALLS:
        raise ValueError(f"an answer with more than {MAX_CALLS} tool calls")
    return map(_one, calls)


def _one(parts: list[CallPart]) -> CallPart:
    return CallPart(
        index=parts[0].index,
        id=next((part.id for part in parts if part.id), ""),
        name="".join(part.name for part in parts)[:MAX_NAME_CHARS],
        args="".join(part.args for part in parts),
    )
