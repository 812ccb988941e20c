"""From an agent's function to a node of the graph: the clock, and the check of everything it writes."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Any, Protocol, TypeVar, cast

from langchain_core.language_models.chat_models import BaseChatModel
from langgraph.runtime import Runtime
from langgraph.types import Overwrite
from pydantic import BaseModel, TypeAdapter, ValidationError

from harness.judging.protocol import JudgeOrder, KernelJudge, OpenJudge
from harness.nouns.candidate import Candidate, TargetChoice
from harness.nouns.tier import TierChoice
from harness.wire.stopping import raise_if_stopped
from nodes.models.select import ModelOptions
from nodes.progress import reporting, tell_of
from nodes.protocols import Clock, JudgedRun
from nodes.roles import Voice
from nodes.settings import Settings
from nodes.state import Usage, require
from nodes.thread_settings import in_force, to_keep
from nodes.turn.agent_loop import TURN, TurnGraph
from tools.judges import open_judge
from tools.kernel_tools import KernelTools

# -- What a node works with beside the state: the settings, the models and the judge. None of it is checkpointed ------


OpenModel = Callable[[str, ModelOptions], BaseChatModel]

_KEPT = 64


class ModelCache:
    """The opened models, one for each run and name: a replay remembers what it has already answered.

    Threads may share it. A run that goes without a thread id shares its models with other such runs of this graph.
    """

    def __init__(self, open_model: OpenModel) -> None:
        self._open_model = open_model
        self._models: OrderedDict[tuple[str | None, str, ModelOptions], BaseChatModel] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, thread_id: str | None, spec: str, options: ModelOptions) -> BaseChatModel:
        """The run's model of that name, opened on first use. Raises `UserError` for a name that means nothing."""
        key = (thread_id, spec, options)
        with self._lock:
            if key not in self._models:
                self._models[key] = self._open_model(spec, options)
            self._models.move_to_end(key)
            while len(self._models) > _KEPT:
                self._models.popitem(last=False)
            return self._models[key]


def options_of(settings: Settings, role: Voice | None = None) -> ModelOptions:
    """How the settings want models reached, and that of one agent's where they tell agents apart."""
    return ModelOptions(
        base_url=settings.base_url or None,
        timeout_s=settings.model_timeout_s,
        silence_s=settings.model_silence_s,
        max_retries=settings.model_retries,
        max_output_tokens=settings.max_answer_tokens,
        effort=settings.reasoning_efforts.get(role, settings.reasoning_effort) if role else settings.reasoning_effort,
        temperature=settings.temperature,
        requests_per_minute=settings.requests_per_minute,
        stream=settings.stream_answers,
        responses=settings.responses_api,
        caching=settings.prompt_caching,
        prices=tuple(settings.prices.items()),
        fallback=settings.fallback_model or None,
    )


@dataclass(frozen=True)
class NodeContext:
    """The surroundings of one step of one run."""

    settings: Settings
    shelf: ModelCache
    open_judge: OpenJudge = open_judge
    thread_id: str | None = None
    turn: TurnGraph = TURN

    def model(self, role: Voice, spec: str = "") -> BaseChatModel:
        """The model that the agent speaks to, or the one of that name in the agent's place."""
        return self.shelf.get(self.thread_id, spec or self.settings.model_for(role), options_of(self.settings, role))

    def any_judge(self) -> KernelJudge:
        """A judge as the settings ask for one; the run then goes on with its target and its isolation."""
        return self._opened(self.settings.target, self.settings.isolation)

    def judge(self, state: JudgedRun, *, quick: bool = False) -> KernelJudge:
        """The run's judge; a quick one finds out less of a kernel, which is enough to rank several."""
        return self._opened(require(state.target, "target"), require(state.tier, "tier"), quick=quick)

    def _opened(self, target: TargetChoice, isolation: TierChoice, *, quick: bool = False) -> KernelJudge:
        settings = self.settings
        order = JudgeOrder(
            target,
            isolation,
            settings.precision,
            settings.tolerance,
            quick=quick,
            ordinal=settings.device,
            describe_s=settings.max_describe_s,
        )
        return self.open_judge(order)

    def tools(
        self,
        state: JudgedRun,
        *,
        quick: bool = False,
        incumbent: Candidate | None = None,
        present: Candidate | None = None,
    ) -> KernelTools:
        """The tools by which the run's kernels are compiled, run and profiled; against the best one, or an
        `incumbent`. Edits are of the `present` one."""
        incumbent = incumbent or (state.best.candidate if state.best else None)
        verdicts = [state.verdict, state.best.verdict if state.best else None]
        known = tuple(verdict for verdict in verdicts if verdict is not None)
        return KernelTools(
            require(state.task, "task"),
            self.judge(state, quick=quick),
            seed=self.settings.seed,
            known=known,
            incumbent=incumbent,
            present=present,
        )


# -- From an agent's function to a node of the graph: the clock, and the check of everything it writes ----------------


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
