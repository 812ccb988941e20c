"""Calls of the server's graphs as MCP tools: results as JSON, and what is wrong as a sentence.

langgraph-api's own `/mcp` writes a result as Python does, and of an error its class alone; all but calls is still its.
"""

from __future__ import annotations

import json
from typing import Any

from langgraph_sdk import Auth
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Message, Receive, Scope, Send

from graph.server.inputs import graph_of, require_input, require_settings
from graph.server.records import client_of

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
