"""A thread of the graph `cutegen` on this server, as a record."""

from __future__ import annotations

import asyncio
import sys
from datetime import datetime
from functools import partial

from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from starlette.requests import Request

from graph.runs.found import MOST_CHECKPOINTS, record_of
from graph.runs.record import RunRecord
from nodes.state import RunState


def client_of(request: Request) -> LangGraphClient:
    """A client of this very server, with what the request may see."""
    authorization = request.headers.get("authorization")
    return get_client(url=_own_url(request), headers={"authorization": authorization} if authorization else None)


async def record_of_thread(request: Request, thread_id: str) -> RunRecord:
    """What a thread has found by now. Raises `httpx.HTTPStatusError`, `ValidationError`; `IndexError` where nothing."""
    client = client_of(request)
    history = await client.threads.get_history(thread_id, limit=MOST_CHECKPOINTS)
    thread = await client.threads.get(thread_id)
    states = [RunState.model_validate(each["values"]) for each in reversed(history) if "source" in each["values"]]
    created = thread["created_at"]
    when = created if isinstance(created, datetime) else datetime.fromisoformat(created)
    return await asyncio.to_thread(partial(record_of, states, id=thread_id, created=when))


def _own_url(request: Request) -> str | None:
    """None for langgraph-api, which is asked within its process; any other server by the port that this came in at.

    Not by the request's Host, which its sender writes.
    """
    if "langgraph_api.server" in sys.modules:
        return None
    host, port = request.scope["server"]
    return f"http://{host}:{port}"
