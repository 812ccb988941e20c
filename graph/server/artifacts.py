"""What a thread of the graph `cutegen` has found, as files over HTTP: kernel, drop-in, record, report."""

from __future__ import annotations

import asyncio
import io
import json
import sys
import zipfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any

import httpx
from langgraph_sdk import Auth, get_client
from langgraph_sdk.client import LangGraphClient
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from graph.export.drop_in import drop_in_files, judged_library
from graph.export.serving import served_by
from graph.live.feed import NOTHING, RETRY_MS, Told, begun, page, written
from graph.pages.report import filled_in, render, view
from graph.runs.progress import DOING, Now, line
from graph.runs.record import RunRecord
from graph.runs.store import MOST_CHECKPOINTS, record_of
from graph.server.auth import graph_of, require_input, require_settings
from harness.nouns.errors import CutegenError
from nodes.events import Progress
from nodes.state import Best, RunState, Step, require


async def artifact(request: Request) -> Response:
    """One file of a thread's findings by now; 404 where there is none yet."""
    asked, thread_id = request.path_params["file"], request.path_params["thread_id"]
    if asked not in _MAKERS:
        return _refused(404, f"There is no such file; there are: {', '.join(_MAKERS)}.")
    try:
        record = await record_of_thread(request, thread_id)
    except httpx.HTTPStatusError as error:
        return _refused(error.response.status_code, f"There is no thread {thread_id}, or not for you.")
    except (ValidationError, IndexError):
        return _refused(404, f"The thread {thread_id} is not one of the graph cutegen, or has not begun.")
    kind, make = _MAKERS[asked]
    try:
        found = await asyncio.to_thread(make, record)
    except CutegenError as error:
        return _refused(500, str(error))
    return Response(found, media_type=kind) if found else _refused(404, "No kernel has passed yet.")


def _kernel(record: RunRecord) -> str | None:
    return record.best.candidate.source if record.best else None


def _drop_in(record: RunRecord) -> bytes | None:
    if record.best is None:
        return None
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, text in _files(record, record.best).items():
            packed.writestr(name, text)
    return held.getvalue()


def _files(record: RunRecord, best: Best) -> Mapping[str, str | bytes]:
    library = judged_library(best.candidate, best.verdict.tier)
    task = served_by(require(record.task, "task"), best.verdict)
    texts = drop_in_files(task, best.candidate, library)
    own = {library.name: library.read_bytes()} if library else {}
    return {"kernel.cu": best.candidate.source, **texts, **own}


_MAKERS: Mapping[str, tuple[str, Callable[[RunRecord], Any]]] = {
    "kernel.cu": ("text/plain; charset=utf-8", _kernel),
    "drop-in.zip": ("application/zip", _drop_in),
    "record.json": ("application/json", lambda record: record.model_dump_json(indent=1)),
    "report.html": ("text/html; charset=utf-8", render),
}


def _refused(status: int, why: str) -> Response:
    return JSONResponse({"detail": why}, status_code=status)


# -- Calls of the server's graphs as MCP tools: results as JSON, and what is wrong as a sentence ----------------------

# langgraph-api's own `/mcp` writes a result as Python does, and of an error its class alone; everything but calls is
# still its own.


MOST_ASSISTANTS = 1000


class ToolCalls:
    """Answers `tools/call` at `/mcp`; hands every other message on to langgraph-api."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI has it. The request's sender was admitted before, like those of the other routes."""
        request = Request(scope, receive)
        body = await request.body()
        asked = _call_in(body)
        found = await _tool(request, asked["params"]) if asked else None
        if asked and found:
            answer = {"jsonrpc": "2.0", "id": asked["id"], "result": await _called(request, found, asked["params"])}
            await JSONResponse(answer)(scope, receive, send)
            return
        from langgraph_api.api.mcp import mcp_routes  # there where the server is

        async def again() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        await mcp_routes[0].handle(scope, again, send)


def _call_in(body: bytes) -> dict[str, Any] | None:
    try:
        message = json.loads(body)
    except ValueError:
        return None
    whole = isinstance(message, dict) and message.get("jsonrpc") == "2.0" and message.get("id") is not None
    calls = whole and message.get("method") == "tools/call" and isinstance(message.get("params"), dict)
    return message if calls else None


async def _tool(request: Request, params: dict[str, Any]) -> str | None:
    """The one assistant of that name; where there is none, or are several, langgraph-api says so."""
    assistants = await client_of(request).assistants.search(limit=MOST_ASSISTANTS)
    named = [str(each["assistant_id"]) for each in assistants if each["name"] == params.get("name")]
    return named[0] if len(named) == 1 else None


async def _called(request: Request, assistant_id: str, params: dict[str, Any]) -> dict[str, Any]:
    """What MCP calls a tool's result: the graph's `result`, or all of its state where it has none, as where it asks."""
    given, context = params.get("arguments") or {}, params.get("context")
    try:  # a request from within the server passes by the handlers that look at others'
        require_settings(context)
        require_input(await graph_of(assistant_id, {}), given)
    except Auth.exceptions.HTTPException as refused:
        return _failed(str(refused.detail))
    state: Any = await client_of(request).runs.wait(None, assistant_id, input=given, context=context, raise_error=False)
    if "__error__" in state:
        return _failed(str(state["__error__"]["message"]))
    result = state.get("result") or state
    return {"content": [{"type": "text", "text": json.dumps(result)}], "structuredContent": result, "isError": False}


def _failed(words: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}], "isError": True}


# -- A thread of the graph `cutegen` on this server, as a record ------------------------------------------------------


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


# -- The live page of a thread: what `cutegen watch` shows of a folder, drawn from the thread's own states and stre ---


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
    if record.outcome == "interrupted":
        record = record.model_copy(update={"outcome": "running"})
    body = await asyncio.to_thread(lambda: filled_in("report_body.html.j2", view(record)))
    return record.name, body, len(record.steps), record.outcome in ("improved", "nothing_faster")


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


ARTIFACTS = (*ROUTES, Route("/cutegen/threads/{thread_id}/{file}", artifact))
"""Beside the server's own routes, behind the same token."""
app = Starlette(routes=[*ARTIFACTS, Route("/mcp", ToolCalls(), methods=["POST"])])
"""Mounted by `langgraph.json`."""
