"""The live page of a thread: what `cutegen watch` shows of a folder, drawn from the thread's own states and stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import httpx
from langgraph_sdk.client import LangGraphClient
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from graph.live.events import RETRY_MS, written
from graph.live.feed import Told
from graph.live.page import NOTHING, begun, page
from graph.pages.report import filled_in, view
from graph.runs.now import Now
from graph.runs.progress import DOING, line
from graph.server.records import client_of, record_of_thread
from nodes.events import Progress
from nodes.state import Step

LOOK_S = 1.0
"""Between looks at a thread's state."""


async def shown(request: Request) -> Response:
    """The page, or its inside alone."""
    thread_id = request.path_params["thread_id"]
    try:
        name, body, at, ended = await _body(request, thread_id)
    except httpx.HTTPStatusError as error:
        return JSONResponse({"detail": f"There is no thread {thread_id}."}, status_code=error.response.status_code)
    except ValidationError:
        return JSONResponse({"detail": f"{thread_id} is no thread of the graph cutegen."}, status_code=404)
    inside = request.url.path.endswith("/body")
    text, policy = (body, NOTHING) if inside else page(name, body, at, ended=ended)
    headers = {"content-security-policy": policy, "x-at": str(at), "cache-control": "no-store"}
    return HTMLResponse(text, headers=headers)


async def happening(request: Request) -> Response:
    """What happens in the thread, as server-sent events; ids count its steps."""
    thread_id, client = request.path_params["thread_id"], client_of(request)
    begins = request.headers.get("last-event-id") or request.query_params.get("from", "0")
    try:
        await client.threads.get(thread_id)
    except httpx.HTTPStatusError as error:
        return JSONResponse({"detail": f"There is no thread {thread_id}."}, status_code=error.response.status_code)
    told = _told(client, thread_id, int(begins) if begins.isdecimal() else 0)
    return StreamingResponse(told, media_type="text/event-stream", headers={"cache-control": "no-store"})


async def _body(request: Request, thread_id: str) -> tuple[str, str, int, bool]:
    try:
        record = await record_of_thread(request, thread_id)
    except IndexError:  # nothing was begun
        return "thread", begun(thread_id), 0, False
    ended = record.outcome != "interrupted"
    if not ended:
        record = record.model_copy(update={"outcome": "running"})
    body = await asyncio.to_thread(lambda: filled_in("report_body.html.j2", view(record)))
    return record.name, body, len(record.steps), ended


async def _told(client: LangGraphClient, thread_id: str, at: int) -> AsyncIterator[bytes]:
    """Steps as they are in the thread's state; between them what its runs tell of themselves."""
    now: asyncio.Queue[str] = asyncio.Queue()
    listening = asyncio.create_task(_listen(client, thread_id, now))
    yield f"retry: {RETRY_MS}\n\n".encode()
    try:
        while True:
            state = await client.threads.get_state(thread_id)
            values: Any = state["values"] or {}
            steps = [Step.model_validate(each) for each in values.get("history", ())]
            for number, step in enumerate(steps[at:], at + 1):
                yield written(Told(str(number), "step", {"line": line(step).plain, "depth": step.depth}))
            ended = values.get("result") is not None
            if len(steps) > at or ended:
                at = len(steps)
                yield written(Told(str(at), "page", {}))
            if ended:
                yield written(Told(str(at), "end", {"text": str(values["result"]["stop"]["message"])}))
                return
            words = [now.get_nowait() for _ in range(now.qsize())][-1:] or [_next(state)]
            yield written(Told(str(at), "now", {"text": words[0]}))
            await asyncio.sleep(LOOK_S)
    finally:
        listening.cancel()


def _next(state: Any) -> str:
    """What the thread is about to do, as far as its state says."""
    if any(task.get("interrupts") for task in state.get("tasks", ())):
        return "a question waits for its answer"
    return ", ".join(DOING.get(agent, agent) for agent in state["next"]) or "nothing runs"


async def _listen(client: LangGraphClient, thread_id: str, now: asyncio.Queue[str]) -> None:
    """Hear each run of the thread out; what was not streamed by its client cannot be heard."""
    heard = Now()
    with suppress(httpx.HTTPError):
        while True:
            for run in await client.runs.list(thread_id, status="running", limit=1):
                async for part in client.runs.join_stream(thread_id, run["run_id"], stream_mode="custom"):
                    with suppress(ValidationError):
                        progress = Progress.model_validate(part.data)
                        heard.heard(progress)
                        doing, more = DOING.get(progress.agent, progress.agent), heard.text()
                        now.put_nowait(f"{doing}: {more}" if more else doing)
            await asyncio.sleep(LOOK_S)


ROUTES = (
    Route("/cutegen/threads/{thread_id}/live/", shown),
    Route("/cutegen/threads/{thread_id}/live/body", shown),
    Route("/cutegen/threads/{thread_id}/live/events", happening),
)
