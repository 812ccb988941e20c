"""A question as the two families of chat interfaces show one: Agent Inbox, and LangChain's human in the loop.

Both see one action. A model's question has one argument, `answer`, which a person may edit, or reply to in words; a
kernel that waits for approval is kept or turned down, with a remark.
"""

from __future__ import annotations

from typing import Any

ACTION, ARGUMENT = "answer", "answer"
KEEP = "keep_kernel"


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


def for_approval(text: str, digest: str) -> dict[str, Any]:
    """The same fields for a kernel that waits for approval."""
    arguments = {"kernel": digest}
    return {
        "action_request": {"action": KEEP, "args": arguments},
        "config": {"allow_accept": True, "allow_ignore": True, "allow_respond": True, "allow_edit": False},
        "description": text,
        "action_requests": [{"name": KEEP, "args": arguments, "description": text}],
        "review_configs": [{"action_name": KEEP, "allowed_decisions": ["approve", "reject"]}],
    }


def decision_in(value: Any) -> tuple[bool, str] | Any:
    """Whether either keeps the kernel, and its remark; whatever else comes is the answer itself.

    Agent Inbox has no rejection with words: a response that is not an `accept` turns the kernel down.
    """
    match value:
        case [dict(only)]:
            return decision_in(only)
        case {"decisions": [{"type": "approve"}]} | {"type": "accept"}:
            return True, ""
        case {"decisions": [{"type": "reject", "message": str(remark)}]}:
            return False, remark
        case {"decisions": [{"type": "reject"}]} | {"type": "ignore"}:
            return False, ""
        case {"type": "response", "args": str(text)}:
            return text if text.lstrip().lower().startswith(("accept", "reject")) else (False, text)
        case _:
            return value
