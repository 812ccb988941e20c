"""Who may ask a server, and what for: whoever knows its token; without one, this machine alone."""

from __future__ import annotations

import hmac
import ipaddress
import os
from typing import Any

from langgraph_sdk import Auth
from pydantic import ValidationError
from starlette.requests import Request

from graph.server.answers import name_question
from graph.sources import MOST_SOURCE_BYTES
from nodes.settings import Settings

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
    """Refuses settings that mean nothing: the server would leave out those that it does not know, without a word.

    And a source that is no text or larger than any file, and an answer to a question that has been answered.
    """
    asked: Any = value.get("kwargs") or value  # langgraph-api keeps them apart, Aegra does not
    _require_settings(asked.get("context"))
    _require_source(asked.get("input"))
    token = os.environ.get(TOKEN, "")
    headers = {"authorization": f"Bearer {token}"} if token else {}
    await name_question(value.get("thread_id"), asked.get("command"), headers)


@auth.on.assistants.create
async def preset_is_made(ctx: Auth.types.AuthContext, value: Auth.types.AssistantsCreate) -> None:
    """Refuses them in an assistant, too."""
    _require_settings(value.get("context"))


@auth.on.assistants.update
async def preset_is_changed(ctx: Auth.types.AuthContext, value: Auth.types.AssistantsUpdate) -> None:
    """Refuses them there as well."""
    _require_settings(value.get("context"))


def _require_settings(context: Any) -> None:
    try:
        Settings.model_validate(context or {})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise Auth.exceptions.HTTPException(status_code=422, detail=f"{where} is not valid: {first['msg']}.") from None


def _require_source(given: Any) -> None:
    source = given.get("source", "") if isinstance(given, dict) else ""
    if not isinstance(source, str):
        raise Auth.exceptions.HTTPException(status_code=422, detail="source is not valid: it is no text.")
    if len(source) > MOST_SOURCE_BYTES:
        why = f"source is not valid: it has {len(source)} characters, of at most {MOST_SOURCE_BYTES}."
        raise Auth.exceptions.HTTPException(status_code=422, detail=why)


def _is_here(request: Request) -> bool:
    try:
        return request.client is not None and ipaddress.ip_address(request.client.host).is_loopback
    except ValueError:
        return False
