"""The Responses API's answers in the shape of chat completions, so that one reader bounds and checks both.

Of its two dozen kinds of events those that carry text, thoughts, calls or the end are put into the other protocol's
words; any other says nothing here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

_THOUGHTS = {"response.reasoning_summary_text.delta", "response.reasoning_text.delta", "response.reasoning.delta"}
_ENDS = {"response.completed", "response.incomplete"}
_FINISH = {"max_output_tokens": "length", "content_filter": "content_filter"}


def as_chat(objects: Iterable[dict[str, Any]], *, streamed: bool) -> Iterator[dict[str, Any]]:
    """The objects of an answer, a stream's events or the one response, as a chat completion's."""
    for told in objects:
        found = _event(told) if streamed else _whole(told)
        if found is not None:
            yield found


def _event(told: dict[str, Any]) -> dict[str, Any] | None:
    kind, delta, place = told.get("type"), told.get("delta"), told.get("output_index")
    if kind == "response.output_text.delta":
        return _says({"content": delta})
    if kind == "response.refusal.delta":
        return _says({"refusal": delta})
    if kind in _THOUGHTS:
        return _says({"reasoning_content": delta})
    if kind == "response.output_item.added":
        item = _dict(told.get("item"))
        return _says({"tool_calls": [_call(item, place, "")]}) if item.get("type") == "function_call" else None
    if kind == "response.function_call_arguments.delta":
        return _says({"tool_calls": [{"index": place, "function": {"arguments": delta}}]})
    if kind in _ENDS:
        return _says({}, _dict(told.get("response")))
    if kind == "response.failed":
        return {"error": _dict(told.get("response")).get("error") or "the response failed"}
    return {"error": told} if kind == "error" else None


def _whole(response: dict[str, Any]) -> dict[str, Any]:
    """Raises `ValueError` for what is no response."""
    items = response.get("output")
    if not isinstance(items, list):
        if response.get("error"):
            return response
        raise ValueError("JSON that is no response")
    items = [item for item in items if isinstance(item, dict)]
    content = [part for item in items for part in _list(item.get("content")) if isinstance(part, dict)]
    said = [part for part in content if part.get("type") == "output_text"]
    refused = next((part.get("refusal") for part in content if part.get("type") == "refusal"), None)
    calls = [_call(item, None, item.get("arguments")) for item in items if item.get("type") == "function_call"]
    return _says({"content": said, "refusal": refused, "tool_calls": calls}, response, place="message")


def _says(said: dict[str, Any], response: dict[str, Any] | None = None, place: str = "delta") -> dict[str, Any]:
    if response is None:
        return {"choices": [{place: said}]}
    why = _dict(response.get("incomplete_details")).get("reason")
    usage = _dict(response.get("usage"))
    counted = {
        "prompt_tokens": usage.get("input_tokens"),
        "prompt_tokens_details": usage.get("input_tokens_details"),
        "completion_tokens": usage.get("output_tokens"),
        "cost": usage.get("cost"),
    }
    finish = _FINISH.get(why, "length") if isinstance(why, str) else "stop"
    return {"choices": [{place: said, "finish_reason": finish}], **({"usage": counted} if usage else {})}


def _call(item: dict[str, Any], place: object, arguments: object) -> dict[str, Any]:
    return {
        "index": place,
        "id": item.get("call_id"),
        "function": {"name": item.get("name"), "arguments": arguments},
    }


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
