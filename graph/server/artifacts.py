"""What a thread of the graph `cutegen` has found, as files over HTTP: kernel, drop-in, record, report."""

from __future__ import annotations

import asyncio
import io
import zipfile
from collections.abc import Callable, Mapping
from typing import Any

import httpx
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from graph.export.drop_in import drop_in_files, judged_library
from graph.pages.report import render
from graph.runs.record import RunRecord
from graph.server.live import ROUTES
from graph.server.records import record_of_thread
from graph.server.tool_calls import ToolCalls
from harness.nouns.errors import CutegenError
from nodes.state import Best, require


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
    texts = drop_in_files(require(record.task, "task"), best.candidate, library)
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


ARTIFACTS = (*ROUTES, Route("/cutegen/threads/{thread_id}/{file}", artifact))
"""Beside the server's own routes, behind the same token."""
app = Starlette(routes=[*ARTIFACTS, Route("/mcp", ToolCalls(), methods=["POST"])])
"""Mounted by `langgraph.json`."""
