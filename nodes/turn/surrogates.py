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
    return message.model_copy(update={name: joined(getattr(message, name)) for name in _FIELDS})


def joined(value: Any) -> Any:
    """A value of JSON in whole characters: texts within lists and objects too."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, list):
        return [joined(part) for part in value]
    if isinstance(value, dict):
        return {joined(name): joined(part) for name, part in value.items()}
    return value
