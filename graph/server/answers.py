"""An answer belongs to the question that was read: two clients may answer one, and the second is refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import httpx
from langgraph_sdk import Auth, get_client

_NAMED = re.compile(r"[0-9a-f]{32}")
"""How LangGraph writes an interrupt's id; a resume value that is keyed by them names its questions."""


async def name_question(thread_id: UUID | str | None, command: Any, headers: Mapping[str, str]) -> None:
    """Have the answer in a run's command name the question that waits, where it names none.

    In place: the server takes the command from there. The question may be answered by somebody else before this run's
    turn; then it finds none of that name, and answers no other. Raises 409 where the question is not there any more.
    """
    answer = command.get("resume") if isinstance(command, dict) else None
    if answer is None or thread_id is None:
        return
    waiting = await _waiting(str(thread_id), headers)
    if waiting is None:
        return
    if _names_questions(answer):
        if not answer.keys() & set(waiting):
            raise _refused("The question that this answers does not wait: it has been answered, or was another run's.")
    elif not waiting:
        raise _refused("No question waits on this thread: it has been answered.")
    elif len(waiting) == 1:
        command["resume"] = {waiting[0]: answer}


async def _waiting(thread_id: str, headers: Mapping[str, str]) -> list[str] | None:
    """The ids of the questions that wait. Raises 409 for a thread on which a run goes on.

    None where nothing can be said: the server cannot show the thread, or its state was edited while a question waited,
    and is asked anew, and answered, by the run to come.
    """
    client = get_client(url=None, headers=dict(headers))
    try:
        if (await client.threads.get(thread_id))["status"] == "busy":
            raise _refused("A run goes on on this thread: its question has been answered.")
        state = await client.threads.get_state(thread_id)
    except httpx.HTTPError:
        return None
    waiting = [each["id"] for task in state["tasks"] for each in task["interrupts"]]
    unknown = not state["values"] or (bool(state["next"]) and not waiting)
    return None if unknown else waiting


def _names_questions(answer: Any) -> bool:
    return isinstance(answer, dict) and bool(answer) and all(_NAMED.fullmatch(str(key)) for key in answer)


def _refused(why: str) -> Exception:
    return Auth.exceptions.HTTPException(status_code=409, detail=why)
