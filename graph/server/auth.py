"""Who may ask a server, and what for: whoever knows its token; without one, this machine alone."""

from __future__ import annotations

import hmac
import ipaddress
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import httpx
from langgraph_sdk import Auth, get_client
from langgraph_sdk.client import LangGraphClient
from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from graph.api.calls import make_settings, raised
from graph.fields import what_is_wrong
from graph.loading import MOST_SOURCE_BYTES
from graph.model.state import ModelInput
from harness.nouns.errors import UserError
from nodes.settings import Budgets, Settings
from nodes.state import TaskInput
from nodes.thread_settings import ThreadSettings, changed, kept_by

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
    _require_no_rollback(value.get("multitask_strategy"))
    asked: Any = value.get("kwargs") or value  # langgraph-api keeps them apart, Aegra does not
    token = os.environ.get(TOKEN, "")
    headers = {"authorization": f"Bearer {token}"} if token else {}
    require_settings(asked.get("context"))
    graph = await graph_of(value.get("assistant_id"), headers)
    require_input(graph, asked.get("input"))
    require_an_answer(asked.get("command"))
    await _settle(value, asked, graph, headers)


async def _settle(value: Auth.types.RunsCreate, asked: Any, graph: str | None, headers: dict[str, str]) -> None:
    thread_id, command = value.get("thread_id"), asked.get("command")
    given = None if command else asked.get("input")
    checkpoint = ((asked.get("config") or {}).get("configurable") or {}).get("checkpoint_id")
    held = await look_at(str(thread_id), graph, headers, checkpoint) if thread_id else None
    if held is not None or thread_id is None or value.get("if_not_exists") == "create":
        require_begun(held, given)  # a thread that there is not is the server's to refuse
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


@auth.on.threads.update
async def run_is_cancelled(ctx: Auth.types.AuthContext, value: Auth.types.ThreadsUpdate) -> None:
    """Refuses a cancellation that would undo the run."""
    _require_no_rollback(value.get("action"))


def _require_no_rollback(action: Any) -> None:
    """Refuses with 422 what langgraph-api cannot do with these checkpoints: it leaves the thread busy for ever."""
    if action == "rollback":
        raise _refused_input("A run cannot be undone: give interrupt, enqueue or reject in place of rollback.")


def _is_here(request: Request) -> bool:
    try:
        return request.client is not None and ipaddress.ip_address(request.client.host).is_loopback
    except ValueError:
        return False


# -- An answer belongs to the question that was read: two clients may answer one, and the second is refused -----------


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


# -- What a run starts from and by which settings: refused with status 422, in a sentence, before anything is run -----


INPUTS: Mapping[str, type[BaseModel]] = {"cutegen": TaskInput, "evolve": TaskInput, "model": ModelInput}
"""By graph. Unchecked, LangGraph would leave out fields that it does not know, and tell the others as pydantic does."""


def require_settings(context: Any) -> None:
    """Refuses settings that are misspelt or out of their bounds, and an address that holds a key."""
    context = {} if context is None else context
    _require(Settings, context, "The settings are", "setting")
    try:
        make_settings(context)
    except UserError as error:
        raise _refused_input(str(error)) from None


def require_input(graph: str | None, given: Any) -> None:
    """Refuses an input that its graph does not take, and a source that is larger than any file.

    Where nothing tells the graph, it is refused only if no graph takes it.
    """
    if given is None:  # an answer, or a run that goes on
        return
    schemas = [INPUTS[graph]] if graph else list(dict.fromkeys(INPUTS.values()))
    if not any(_fits(schema, given) for schema in schemas[1:]):
        _require(schemas[0], given, "The input is", "field of the input")
    source = given["source"]
    if len(source) > MOST_SOURCE_BYTES:
        raise _refused_input(f"source is not valid: it has {len(source)} characters, of at most {MOST_SOURCE_BYTES}.")


async def graph_of(assistant: Any, headers: Mapping[str, str]) -> str | None:
    """Which graph an assistant runs, as this server says; None where that is not langgraph-api, or knows none such."""
    assistant_id = str(assistant)
    if assistant_id in INPUTS:
        return assistant_id
    try:
        found = await get_client(url=None, headers=dict(headers)).assistants.get(assistant_id)
    except httpx.HTTPError:
        return None
    return found["graph_id"] if found["graph_id"] in INPUTS else None


def _fits(schema: type[BaseModel], given: Any) -> bool:
    try:
        schema.model_validate(given)
    except ValidationError:
        return False
    return True


def _require(schema: type[BaseModel], given: Any, whole: str, field: str) -> None:
    try:
        schema.model_validate(given)
    except ValidationError as error:
        raise _refused_input(what_is_wrong(error, schema, whole, field)) from None


def _refused_input(why: str) -> Exception:
    return Auth.exceptions.HTTPException(status_code=422, detail=why)


# -- What a run finds on its thread: whether something was begun there, the questions that wait, and the settings -----


@dataclass(frozen=True)
class Held:
    """A thread as a run finds it. `settings` are those of the run on its `source`, where they are known."""

    begun: bool
    busy: bool
    source: str | None
    settings: Settings | None
    waiting: tuple[str, ...]
    """The questions' ids."""
    asks_anew: bool
    """Its state was edited while a question waited, which is asked anew, and answered, by the run to come."""


async def look_at(thread_id: str, graph: str | None, headers: Mapping[str, str], checkpoint: Any) -> Held | None:
    """The thread as it is, or as it was at a checkpoint; None where the server does not know it.

    A server that was killed may have forgotten which graph a thread is of, and shows no state of it then: it is of the
    graph that is to run.
    """
    client = get_client(url=None, headers=dict(headers))
    try:
        thread = await client.threads.get(thread_id)
        if graph and not (thread["metadata"] or {}).get("graph_id"):
            await client.threads.update(thread_id, metadata={"graph_id": graph})
        state: Any = await client.threads.get_state(thread_id, checkpoint_id=checkpoint)
        values: Mapping[str, Any] = state["values"] or {}
        settings = _kept_in(values)
        if state["next"] and (sent := await _last_sent(client, thread_id)) is not None:
            settings = _with_larger_budgets(settings, sent) if settings is not None else sent
    except httpx.HTTPError:
        return None
    waiting = tuple(each["id"] for task in state["tasks"] for each in task["interrupts"])
    return Held(
        begun=bool(values or state["next"]),
        busy=thread["status"] == "busy",
        source=values.get("source"),
        settings=settings,
        waiting=waiting,
        asks_anew=bool(state["next"]) and not waiting,
    )


def _kept_in(values: Mapping[str, Any]) -> Settings | None:
    try:
        kept = ThreadSettings.model_validate(values.get("settings"))
    except ValidationError:  # none, or another version's
        return None
    return kept_by(SimpleNamespace(settings=kept, source=values.get("source")))


def _with_larger_budgets(kept: Settings, sent: Settings) -> Settings:
    """A node that asks again after an unusable answer ends without having written down what came with that answer."""
    for name in Budgets.model_fields.keys() & sent.model_fields_set:
        with suppress(UserError):
            kept = raised(kept, {name: getattr(sent, name)})
    return kept


async def _last_sent(client: LangGraphClient, thread_id: str) -> Settings | None:
    """The settings of the thread's last run, as the server remembers them, whatever its nodes have written down."""
    for run in await client.runs.list(thread_id, limit=1):
        kwargs: Any = dict(run).get("kwargs") or {}
        try:
            return Settings.model_validate(kwargs.get("context") or {})
        except ValidationError:
            return None
    return None


def settings_on(held: Held, given: Any, sent: Any) -> dict[str, Any] | None:
    """All settings of a run on this thread; None where no more is known of them than what is `sent`.

    A run that goes on has the thread's, with larger budgets where some are sent. The thread's own source, given once
    more, may be given with other settings of any kind. Raises 422 for a setting that contradicts the thread's.
    """
    if held.settings is None or (given is not None and given["source"] != held.source):
        return None
    own = Settings.model_validate(sent or {})
    if given is not None:
        return changed(held.settings, own).model_dump(mode="json")
    more = {name: getattr(own, name) for name in own.model_fields_set}
    try:
        return raised(held.settings, more).model_dump(mode="json")
    except UserError as error:
        raise _refused_thread(str(error)) from None


def require_begun(held: Held | None, given: Any) -> None:
    """Raises 422 for a run that goes on, or brings a command of any kind, where nothing was begun."""
    if given is None and (held is None or not held.begun):
        raise _refused_thread("Nothing was begun on this thread: give the run an input first.")


def require_an_answer(command: Any) -> None:
    """Raises 422 for a command that does more than answer: a node run out of its turn, or a state that no edit may
    make, would fail, now and whenever the thread goes on.
    """
    if isinstance(command, dict) and any(command.get(name) for name in ("goto", "update")):
        raise _refused_thread("A command only answers (resume): the graph says what is next; edit with update_state.")


def _refused_thread(why: str) -> Exception:
    return Auth.exceptions.HTTPException(status_code=422, detail=why)
