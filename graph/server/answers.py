"""An answer belongs to the question that was read: two clients may answer one, and the second is refused."""

from __future__ import annotations

import re
from typing import Any

from langgraph_sdk import Auth

from graph.server.threads import Held

_NAMED = re.compile(r"[0-9a-f]{32}")
"""How LangGraph writes an interrupt's id; a resume value that is keyed by them names its questions."""


def name_question(held: Held, command: Any) -> None:
    """Have the answer in a run's command name the question that waits, where it names none.

    In place: the server takes the command from there. The question may be answered by somebody else before this run's
    turn; then it finds none of that name, and answers no other. Raises 409 where the question is not there any more.
    """
    answer = command.get("resume") if isinstance(command, dict) else None
    if answer is None:
        return
    if held.busy:
        raise _refused("A run goes on on this thread: its question has been answered.")
    if held.asks_anew:
        return
    if _names_questions(answer):
        if not answer.keys() & set(held.waiting):
            raise _refused("The question that this answers does not wait: it has been answered, or was another run's.")
    elif not held.waiting:
        raise _refused("No question waits on this thread: it has been answered.")
    elif len(held.waiting) == 1:
        command["resume"] = {held.waiting[0]: answer}


def _names_questions(answer: Any) -> bool:
    return isinstance(answer, dict) and bool(answer) and all(_NAMED.fullmatch(str(key)) for key in answer)


def _refused(why: str) -> Exception:
    return Auth.exceptions.HTTPException(status_code=409, detail=why)
