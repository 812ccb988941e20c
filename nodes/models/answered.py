"""The message that an endpoint's answer becomes: made anew of what is known to be sound."""

from __future__ import annotations

import json
import math
import re
from contextlib import suppress
from typing import Any

from langchain_core.messages import AIMessage, InvalidToolCall, ToolCall
from langchain_core.messages.ai import InputTokenDetails, UsageMetadata

from nodes.models.endpoint_errors import without
from nodes.models.prices import Price
from nodes.models.streaming import Counts, Piece
from nodes.models.usage import Bill
from nodes.state import Usage
from nodes.turn.surrogates import joined

_FINISH = re.compile(r"[a-z_]{1,40}")
_DEEPEST = 16
_INTEGER_BITS = 63


def message_of(answer: Piece, key: str, price: Price | None, name: str) -> AIMessage:
    """The answer as a message under the id `name`, with its `Bill`, in whole characters and without the key.

    Arguments that are no JSON object, that broke off, or that nobody could write down make an invalid call.
    """
    text, refusal = _cleaned(key, [answer.text, answer.refusal])
    message = AIMessage(text, id=name, usage_metadata=_usage(answer.counts))
    for call in answer.calls:
        own, tool, args = _cleaned(key, [call.id or None, call.name, call.args])
        arguments = _arguments(args)
        if arguments is None:
            unread = InvalidToolCall(type="invalid_tool_call", id=own, name=tool, args=args, error=None)
            message.invalid_tool_calls.append(unread)
        else:
            # Escapes within the arguments' own JSON may spell the key, and half characters, too.
            found = ToolCall(type="tool_call", id=own, name=tool, args=_cleaned(key, arguments))
            message.tool_calls.append(found)
    Bill(dollars=_dollars(answer.counts, price), finish=_finish(key, answer.finish), refusal=refusal).attach(message)
    return message


def lost_cost(counts: Counts, price: Price | None) -> Usage:
    """What an answer cost that broke after its endpoint had counted it, as far as that is known."""
    tokens = _usage(counts)
    assert tokens is not None
    return Usage(
        input_tokens=tokens["input_tokens"],
        cached_tokens=(tokens.get("input_token_details") or {}).get("cache_read") or 0,
        output_tokens=tokens["output_tokens"],
        dollars=_dollars(counts, price) or 0.0,
    )


def _arguments(text: str) -> dict[str, Any] | None:
    """The JSON object that a call's arguments are, if they are one. Half a kernel is no kernel: none is completed."""
    with suppress(ValueError, RecursionError):
        found = json.loads(text or "{}")
        return found if isinstance(found, dict) and _storable(found) else None
    return None


def _storable(value: Any, deep: int = 0) -> bool:
    """Whether a checkpoint and a line of JSON can hold the value: no deep nesting, no huge and no infinite numbers."""
    match value:
        case dict() | list() if deep >= _DEEPEST:
            return False
        case dict():
            return all(_storable(part, deep + 1) for part in value.values())
        case list():
            return all(_storable(part, deep + 1) for part in value)
        case float():
            return math.isfinite(value)
        case int():
            return value.bit_length() <= _INTEGER_BITS
        case _:
            return True


def _finish(key: str, told: str) -> str:
    """Why the answer ended: a word of the protocol's kind, and of anything else that it was none."""
    told = without(key, told)
    return told if not told or _FINISH.fullmatch(told) else "other"


def _usage(counts: Counts | None) -> UsageMetadata | None:
    if counts is None:
        return None
    put, out = counts.input or 0, counts.output or 0
    details = InputTokenDetails(cache_read=min(counts.cached or 0, put))
    return UsageMetadata(input_tokens=put, output_tokens=out, total_tokens=put + out, input_token_details=details)


def _dollars(counts: Counts | None, price: Price | None) -> float | None:
    """Dollars as the endpoint reports them, else by the price; absent where nobody knows one or the other."""
    if counts is None or counts.dollars is not None:
        return counts.dollars if counts else None
    if price is None or counts.input is None or counts.output is None:
        return None
    cached = min(counts.cached or 0, counts.input)
    return price.dollars(input_tokens=counts.input, cached_tokens=cached, output_tokens=counts.output)


def _cleaned(key: str, told: Any) -> Any:
    return json.loads(without(key, json.dumps(joined(told), ensure_ascii=False)))
