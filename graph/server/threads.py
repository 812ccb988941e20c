"""What a run finds on its thread: whether something was begun there, the questions that wait, and the settings."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import httpx
from langgraph_sdk import Auth, get_client
from langgraph_sdk.client import LangGraphClient
from pydantic import ValidationError

from graph.api import raised
from harness.nouns.errors import UserError
from nodes.settings import Budgets, Settings
from nodes.thread_settings import ThreadSettings, changed, kept_by


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
        raise _refused(str(error)) from None


def require_begun(held: Held | None, given: Any, command: Any) -> None:
    """Raises 422 for a run that goes on, or answers, where nothing was begun."""
    writes = command and (command.get("update") or command.get("goto"))
    if given is None and not writes and (held is None or not held.begun):
        raise _refused("Nothing was begun on this thread: give the run an input first.")


def _refused(why: str) -> Exception:
    return Auth.exceptions.HTTPException(status_code=422, detail=why)
