"""A question as the two families of chat interfaces show one: Agent Inbox, and LangChain's human in the loop.

Both see one action with one argument, `answer`, which a person may edit, or reply to in words.
"""

from __future__ import annotations

from typing import Any

ACTION, ARGUMENT = "answer", "answer"


def for_interfaces(text: str) -> dict[str, Any]:
    """Agent Inbox's fields (the first three) and LangChain's (the last two) of a question with this text."""
    arguments = {ARGUMENT: ""}
    return {
        "action_request": {"action": ACTION, "args": arguments},
        "config": {"allow_respond": True, "allow_edit": True, "allow_accept": False, "allow_ignore": False},
        "description": text,
        "action_requests": [{"name": ACTION, "args": arguments, "description": text}],
        "review_configs": [{"action_name": ACTION, "allowed_decisions": ["respond", "edit"]}],
    }


def answer_in(value: Any) -> Any:
    """The answer in what either sends back; whatever else comes is the answer itself."""
    match value:
        case {"decisions": [{"type": "respond", "message": str(answer)}]}:
            return answer
        case {"decisions": [{"type": "edit", "edited_action": {"args": {"answer": answer}}}]}:
            return answer
        case [{"type": "response", "args": str(answer)}] | {"type": "response", "args": str(answer)}:
            return answer
        case [{"type": "edit", "args": {"args": {"answer": answer}}}] | {
            "type": "edit",
            "args": {"args": {"answer": answer}},
        }:
            return answer
        case _:
            return value
