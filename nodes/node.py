"""From an agent's function to a node of the graph: the clock, and the check of everything it writes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Annotated, Any, Protocol, TypeVar, cast

from langgraph.runtime import Runtime
from langgraph.types import Overwrite
from pydantic import BaseModel, TypeAdapter, ValidationError

from harness.judging.protocol import OpenJudge
from harness.wire.stopping import raise_if_stopped
from nodes.node_context import ModelCache, NodeContext
from nodes.progress import reporting, tell_of
from nodes.protocols import Clock
from nodes.settings import Settings
from nodes.state import Usage
from nodes.thread_settings import in_force, to_keep
from nodes.turn.agent_loop import TurnGraph
from tools.judges import open_judge

Update = dict[str, Any]
Run = TypeVar("Run", bound=Clock)
Called = TypeVar("Called", bound=Clock, contravariant=True)
Agent = Callable[[Run, NodeContext], Update]
Admission = Callable[[Settings, Run], None]


class Node(Protocol[Called]):
    """What LangGraph calls: the state by position, the run's surroundings by name."""

    def __call__(self, state: Called, *, runtime: Runtime[Settings]) -> Update:
        """The fields that change."""
        ...


class StateWriteError(TypeError):
    """A node wrote something that the state has no place for. Written unchecked, it would make the run unreadable."""


def as_node(
    agent: Agent[Run],
    shelf: ModelCache,
    turn: TurnGraph | None = None,
    admit: Admission[Run] | None = None,
    open_judge: OpenJudge = open_judge,
) -> Node[Run]:
    """Wrap an agent: measure it, put the seconds into its step and the run's clock, validate what it writes.

    The state may be any graph's, as long as it is a pydantic model with a clock; LangGraph takes the graph's own.
    `turn` is the graph within, for an agent that speaks to a model. LangGraph finds it because the node names it, and
    then draws it, streams it and shows its checkpoints. `admit` raises for settings and states that may not be used.
    What an agent overwrites begins anew; it is written in place of the sum. Seconds of an agent's own are a correction
    of the clock: those of nodes that ran side by side count once.
    """
    name = getattr(agent, "__name__", "node")

    def node(state: Run, *, runtime: Runtime[Settings]) -> Update:
        raise_if_stopped()
        started = time.monotonic()
        node_context = node_context_of(runtime, shelf, open_judge, state)
        with reporting(name, runtime.stream_writer, cast("BaseModel", state)):
            if admit:
                admit(node_context.settings, state)
            given = agent(state, node_context if turn is None else replace(node_context, turn=turn))
            kept = to_keep(node_context.settings, state)
            settings = {"settings": kept} if kept else {}
            return _written(given | settings, cast("BaseModel", state), started, name)

    node.__name__ = name
    return node


def _written(given: Update, state: BaseModel, started: float, writer: str) -> Update:
    """What an agent gives, with the time that it took, checked and told."""
    begun = {field: value.value for field, value in given.items() if isinstance(value, Overwrite)}
    update = {field: value for field, value in given.items() if field not in begun}
    # A turn that was broken off and went on here took longer than this clock has seen, its kernels' runs included.
    spoken: Usage = update.get("usage", Usage())
    seconds = max(time.monotonic() - started, spoken.seconds + spoken.device_seconds)
    steps = tuple(step.model_copy(update={"seconds": seconds}) for step in update.get("history", ()))
    corrected = seconds + update.get("seconds", 0.0)
    timed = {**update, "seconds": corrected, **({"history": steps} if steps else {})}
    checked = validated(begun | timed, type(state), writer=writer)
    tell_of(checked, state)
    return {field: Overwrite(value) if field in begun else value for field, value in checked.items()}


def node_context_of(runtime: Runtime[Settings], shelf: ModelCache, open_judge: OpenJudge, state: Clock) -> NodeContext:
    """The surroundings of this invocation. Plain Python passes no context where the caller gives none."""
    thread_id = runtime.execution_info.thread_id if runtime.execution_info else None
    return NodeContext(in_force(runtime.context, state), shelf, open_judge, thread_id)


def validated(update: Update, schema: type[BaseModel], *, writer: str) -> Update:
    """The update of a state of this type, checked.

    Raises `StateWriteError` for an unknown field and for a value of the wrong type.
    """
    checked: Update = {}
    for field, value in update.items():
        if field not in schema.model_fields:
            raise StateWriteError(f'the {writer} wrote "{field}", which is no field of the state')
        try:
            checked[field] = _adapter(schema, field).validate_python(value, strict=True)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise StateWriteError(f'the {writer} wrote a wrong "{field}": {first["msg"]}') from error
    return checked


@cache
def _adapter(schema: type[BaseModel], field: str) -> TypeAdapter[Any]:
    info = schema.model_fields[field]
    declared: Any = Annotated[info.annotation, info]
    return TypeAdapter(declared)
