"""Another graph, whose state is its own, uses nodes, turns, judge and tools as they are, and is driven like a run."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.runtime import RunControl, Runtime
from pool_graph import RIGHT, Pool, graph_of
from scripted_judge import Scripted

from graph.driving.thread import Early, GraphThread
from graph.runs.progress import Observer
from nodes.models.local import ScriptedModel
from nodes.models.manual import ManualModel
from nodes.settings import Settings
from nodes.state import Step
from nodes.turn.node import ModelCache, NodeContext, StateWriteError, as_node


class Heard:
    """An observer that may ask for an end when a node begins."""

    def __init__(self, control: RunControl | None = None) -> None:
        self.began: list[str] = []
        self.steps: list[str | None] = []
        self._control = control

    def started(self, agent: str) -> None:
        self.began.append(agent)
        if self._control:
            self._control.request_drain("enough")

    def stepped(self, step: Step) -> None:
        self.steps.append(step.status)


class Driven:
    """The graph on one thread of its checkpoints."""

    def __init__(self, model: BaseChatModel, **settings: Any) -> None:
        self.judges = Scripted()
        self.thread = GraphThread(graph_of(model, self.judges, InMemorySaver()), "one")
        self.settings = Settings(**settings)

    def go(self, *observers: Observer, **options: Any) -> Early | None:
        return self.thread.take_on(Pool(), self.settings, observers, **options)

    @property
    def state(self) -> Pool:
        return Pool.model_validate(self.thread.graph.get_state(self.thread.config).values)


def call(source: str) -> AIMessage:
    return AIMessage(
        "", tool_calls=[{"type": "tool_call", "id": "a", "name": "run_kernel", "args": {"source": source}}]
    )


def test_a_turn_with_a_tool_and_a_verdict_come_into_its_own_state() -> None:
    driven, heard = Driven(ScriptedModel(answers=[call(RIGHT), RIGHT])), Heard()
    assert driven.go(heard) is None
    end = driven.state
    assert end.pool == (RIGHT,)
    assert end.verdict is not None and end.verdict.passed
    assert (end.attempts, end.usage.calls) == (1, 2)
    assert end.seconds > 0, "the nodes' time adds up in its clock"
    assert [method for method, _ in driven.judges.asked].count("evaluate") == 2, "by the tool, and by the tester"
    assert (heard.began, heard.steps) == (["diagnoser", "tester"], ["passed"])
    assert driven.go(heard) is None and driven.state == end, "what has ended is not begun anew unasked"


def test_its_budgets_end_a_turn_between_two_calls() -> None:
    driven = Driven(ScriptedModel(answers=[call(RIGHT), RIGHT]), max_calls=1)
    driven.go()
    end = driven.state
    assert end.ended is not None and end.ended.name == "calls"
    assert (end.pool, end.verdict, end.usage.calls) == ((), None, 1)


def test_its_questions_wait_for_their_answers() -> None:
    driven = Driven(ManualModel())
    assert driven.go() == "waiting"
    question = driven.thread.question()
    assert question is not None and question.role == "diagnoser"
    assert driven.go() == "waiting", "without an answer nothing goes on"
    assert driven.go(answer=RIGHT) is None
    assert (driven.state.pool, driven.thread.question()) == ((RIGHT,), None)


def test_asked_to_end_it_ends_after_the_present_step_and_goes_on_later() -> None:
    control = RunControl()
    driven = Driven(ScriptedModel(answers=[RIGHT]))
    assert driven.go(Heard(control), control=control) == "interrupted"
    assert driven.state.verdict is None
    assert driven.go() is None, "an answer that was given is not asked for again: the script has no second one"
    assert (driven.state.pool, driven.state.verdict is not None) == ((RIGHT,), True)


def test_what_it_has_no_field_for_is_refused() -> None:
    def writes(state: Pool, node_context: NodeContext) -> dict[str, Any]:
        return {"depth": 1}

    with pytest.raises(StateWriteError, match='wrote "depth", which is no field'):
        as_node(writes, ModelCache(lambda spec, options: ScriptedModel(answers=[])))(Pool(), runtime=Runtime())
