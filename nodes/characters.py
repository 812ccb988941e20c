"""Halves of characters in what a model says: two that belong together are joined, one alone is replaced.

JSON may spell a character beyond the first 65,536 as two halves, and a stream may cut between them. Half a character
can be neither recorded, checkpointed, compiled nor sent back.
"""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage

_FIELDS = ("content", "tool_calls", "invalid_tool_calls", "additional_kwargs", "response_metadata")


def whole_characters(message: AIMessage) -> AIMessage:
    """The message in whole characters; a half without its other half becomes U+FFFD."""
    return message.model_copy(update={name: _whole(getattr(message, name)) for name in _FIELDS})


def _whole(value: Any) -> Any:
    """Texts within lists and objects too; whatever else there is stays as it is."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, list):
        return [_whole(part) for part in value]
    if isinstance(value, dict):
        return {_whole(name): _whole(part) for name, part in value.items()}
    return value
