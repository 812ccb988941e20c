"""Who may ask a server, and what for: whoever knows its token; without one, this machine alone."""

from __future__ import annotations

import hmac
import ipaddress
import os
from typing import Any

from langgraph_sdk import Auth
from starlette.requests import Request

from graph.server.answers import name_question
from graph.server.inputs import graph_of, require_input, require_settings
from graph.server.threads import look_at, require_begun, settings_on

TOKEN = "CUTEGEN_SERVER_TOKEN"

auth = Auth()


@auth.authenticate
async def who(request: Request, authorization: str | None) -> Auth.types.MinimalUserDict:
    """Refuses with 401, however the server is bound: kernels that clients send run on this machine."""
    if os.environ.get(TOKEN):
        require_token(authorization or "")
        return {"identity": "token"}
    if not _is_here(request):
        raise Auth.exceptions.HTTPException(
            status_code=401, detail=f"This server answers other machines only with a token: set {TOKEN} where it runs."
        )
    return {"identity": "local"}


def require_token(authorization: str) -> None:
    """Refuses with 401 who does not send the server's token, and everybody where it has none."""
    token = os.environ.get(TOKEN, "")
    if not token or not hmac.compare_digest(authorization.encode(), f"Bearer {token}".encode()):
        raise Auth.exceptions.HTTPException(status_code=401, detail=f"Send `Authorization: Bearer ${TOKEN}`.")


@auth.on.threads.create_run
async def run_begins(ctx: Auth.types.AuthContext, value: Auth.types.RunsCreate) -> None:
    """Refuses settings and inputs that mean nothing, and an answer to a question that has been answered.

    A run on a thread that holds one gets the settings of that one, but for what its client sends.
    """
    asked: Any = value.get("kwargs") or value  # langgraph-api keeps them apart, Aegra does not
    token = os.environ.get(TOKEN, "")
    headers = {"authorization": f"Bearer {token}"} if token else {}
    require_settings(asked.get("context"))
    graph = await graph_of(value.get("assistant_id"), headers)
    require_input(graph, asked.get("input"))
    await _settle(value, asked, graph, headers)


async def _settle(value: Auth.types.RunsCreate, asked: Any, graph: str | None, headers: dict[str, str]) -> None:
    thread_id, command = value.get("thread_id"), asked.get("command")
    given = None if command else asked.get("input")
    checkpoint = ((asked.get("config") or {}).get("configurable") or {}).get("checkpoint_id")
    held = await look_at(str(thread_id), graph, headers, checkpoint) if thread_id else None
    if held is not None or thread_id is None or value.get("if_not_exists") == "create":
        require_begun(held, given, command)  # a thread that there is not is the server's to refuse
    if held is not None:
        name_question(held, command)
        asked["context"] = settings_on(held, given, asked.get("context")) or asked.get("context")


@auth.on.assistants.create
async def preset_is_made(ctx: Auth.types.AuthContext, value: Auth.types.AssistantsCreate) -> None:
    """Refuses them in an assistant, too."""
    require_settings(value.get("context"))


@auth.on.assistants.update
async def preset_is_changed(ctx: Auth.types.AuthContext, value: Auth.types.AssistantsUpdate) -> None:
    """Refuses them there as well."""
    require_settings(value.get("context"))


def _is_here(request: Request) -> bool:
    try:
        return request.client is not None and ipaddress.ip_address(request.client.host).is_loopback
    except ValueError:
        return False
