"""What a request says about keeping the steady beginning of its prompt, for providers that want to be asked."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage

from nodes.address import PromptCaching

STEADY = "steady"
"""Of a question's `additional_kwargs`: how many characters are the task, and how many all that a run keeps."""
_MARK = {"cache_control": {"type": "ephemeral"}}


def keeping(request: dict[str, Any], messages: Sequence[BaseMessage], caching: PromptCaching) -> dict[str, Any]:
    """The request with the task's key, or with marks behind the rules, the task and the guide.

    Unchanged where nobody asks for it, and where the question does not tell what stays.
    """
    place, steady = _steady(messages)
    if caching == "unasked" or not steady:
        return request
    question = str(messages[place].text)
    if caching == "key":
        told = "".join(str(message.text) for message in messages[:place]) + question[: steady[0]]
        return request | {"prompt_cache_key": f"cutegen-{hashlib.sha256(told.encode()).hexdigest()[:32]}"}
    if "messages" not in request:
        return request
    rules, rest = [], question
    for end in dict.fromkeys(steady):
        cut = end - (len(question) - len(rest))
        rules.append({"type": "text", "text": rest[:cut], **_MARK})
        rest = rest[cut:]
    said = [*request["messages"]]
    said[place] = {**said[place], "content": [*rules, {"type": "text", "text": rest}]}
    return request | {"messages": said}


def _steady(messages: Sequence[BaseMessage]) -> tuple[int, tuple[int, ...]]:
    """Where the question stands, and the ends of what stays in it."""
    for place, message in enumerate(messages):
        if isinstance(message, HumanMessage) and STEADY in message.additional_kwargs:
            return place, tuple(message.additional_kwargs[STEADY])
    return 0, ()
