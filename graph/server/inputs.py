"""What a run starts from and by which settings: refused with status 422, in a sentence, before anything is run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx
from langgraph_sdk import Auth, get_client
from pydantic import BaseModel, ValidationError

from graph.api import make_settings
from graph.fields import what_is_wrong
from graph.model.state import ModelInput
from graph.sources import MOST_SOURCE_BYTES
from harness.nouns.errors import UserError
from nodes.settings import Settings
from nodes.state import TaskInput

INPUTS: Mapping[str, type[BaseModel]] = {"cutegen": TaskInput, "evolve": TaskInput, "model": ModelInput}
"""By graph. Unchecked, LangGraph would leave out fields that it does not know, and tell the others as pydantic does."""


def require_settings(context: Any) -> None:
    """Refuses settings that are misspelt or out of their bounds, and an address that holds a key."""
    context = {} if context is None else context
    _require(Settings, context, "The settings are", "setting")
    try:
        make_settings(context)
    except UserError as error:
        raise _refused(str(error)) from None


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
        raise _refused(f"source is not valid: it has {len(source)} characters, of at most {MOST_SOURCE_BYTES}.")


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
        raise _refused(what_is_wrong(error, schema, whole, field)) from None


def _refused(why: str) -> Exception:
    return Auth.exceptions.HTTPException(status_code=422, detail=why)
