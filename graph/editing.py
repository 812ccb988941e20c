"""A graph whose threads may be edited: by `update_state`, the server's API, and forks in Studio."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.errors import InvalidUpdateError
from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, Overwrite, StateUpdate
from langgraph.typing import ContextT, InputT, OutputT, StateT
from pydantic import BaseModel, ValidationError

from graph.fields import what_is_wrong
from harness.nouns.errors import UserError

_COPY = "__copy__"
_OVERWRITE = "__overwrite__"
"""How LangGraph's API writes a node's name that copies a checkpoint, and a value that replaces instead of adding."""


class StateEditError(UserError, InvalidUpdateError):
    """An edit that the state has no place for; a server answers it with status 400."""


class EditableGraph(StateGraph[StateT, ContextT, InputT, OutputT]):
    """A graph whose state is a pydantic model, and stays one whatever somebody writes into a thread."""

    def compile(self, *given: Any, **more: Any) -> CompiledStateGraph[StateT, ContextT, InputT, OutputT]:
        """As LangGraph does it, with a check of edits."""
        made = super().compile(*given, **more)
        return _Checked(**{name: value for name, value in vars(made).items() if name != "__orig_class__"})


class _Checked(CompiledStateGraph[Any, Any, Any, Any]):
    """LangGraph drops a field that it does not know without a word, and writes a wrong value, which makes the thread
    unreadable wherever no node reads it on the way."""

    def bulk_update_state(self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]) -> RunnableConfig:
        self._require(config, self.get_state(config).values, supersteps)
        return super().bulk_update_state(config, supersteps)

    async def abulk_update_state(
        self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        self._require(config, (await self.aget_state(config)).values, supersteps)
        return await super().abulk_update_state(config, supersteps)

    def _require(
        self, config: RunnableConfig, values: Mapping[str, Any], supersteps: Sequence[Sequence[StateUpdate]]
    ) -> None:
        """Raises `StateEditError` where the thread's state, or that of an agent's turn, would be none any more."""
        schema = self._schema(config)
        for update in (update for superstep in supersteps for update in superstep):
            if update.as_node == _COPY or update.values is None:
                continue
            values = {**values, **_named(update.values)}
            try:
                schema.model_validate(values)
            except ValidationError as error:
                raise StateEditError(what_is_wrong(error, schema, "The state is", "field of the state")) from None

    def _schema(self, config: RunnableConfig) -> type[BaseModel]:
        """Of the graph that is edited: this one, or an agent's turn within."""
        place = str(config.get("configurable", {}).get("checkpoint_ns", ""))
        within = "|".join(each.partition(":")[0] for each in place.split("|"))
        edited: Any = dict(self.get_subgraphs(recurse=True)).get(within, self)
        return cast("type[BaseModel]", edited.builder.state_schema)


def _named(values: Any) -> Mapping[str, Any]:
    """What an edit writes, by field; of what is added to a list or a sum the part that is added."""
    values = values.update if isinstance(values, Command) else values
    values = dict(values) if isinstance(values, BaseModel) else values or {}
    if not isinstance(values, dict):
        raise StateEditError("The edit is not valid: what is given is no JSON object with named fields.")
    return {str(name): _written(value) for name, value in values.items()}


def _written(value: Any) -> Any:
    if isinstance(value, Overwrite):
        return value.value
    return value[_OVERWRITE] if isinstance(value, dict) and value.keys() == {_OVERWRITE} else value
