"""A person as the model: answered from chat interfaces of either family, once, and named where kernels are edited."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pool_graph import RIGHT, Pool, graph_of
from scripted_judge import Scripted
from softsign_script import FASTER, SOURCE, written
from softsign_script import RIGHT as SOFTSIGN

from graph.workflow import build_graph
from nodes.models.local import ScriptedModel
from nodes.models.manual import ManualModel, Question
from nodes.settings import Settings
from nodes.state import RunState

THREAD: RunnableConfig = {"configurable": {"thread_id": "one"}}
EDITED = {"action": "answer", "args": {"answer": RIGHT}}


@pytest.mark.parametrize(
    "sent",
    [
        RIGHT,
        [{"type": "response", "args": RIGHT}],
        [{"type": "edit", "args": EDITED}],
        {"type": "edit", "args": EDITED},
        {"decisions": [{"type": "respond", "message": RIGHT}]},
        {"decisions": [{"type": "edit", "edited_action": {"name": "answer", "args": {"answer": RIGHT}}}]},
    ],
)
def test_a_question_is_answered_from_either_family_of_interfaces(sent: Any) -> None:
    graph = graph_of(ManualModel(), Scripted(), InMemorySaver())
    waiting = graph.invoke(Pool(), THREAD, context=Settings())["__interrupt__"][0].value
    question = Question.read(waiting)
    assert waiting["description"] == question.text() == waiting["action_requests"][0]["description"]
    assert waiting["action_request"]["action"] == waiting["review_configs"][0]["action_name"]
    assert waiting["config"]["allow_respond"]
    ended = graph.invoke(Command(resume=sent), THREAD, context=Settings())
    assert ended["pool"] == (RIGHT,)


def test_of_two_answers_to_one_question_the_second_answers_no_other() -> None:
    graph = build_graph(lambda spec, options: ManualModel(), Scripted()).compile(checkpointer=InMemorySaver())
    settings = Settings(max_depth=1, target="cpu", sanitize=False)
    given: Any = {"source": SOURCE, "name": "softsign"}
    first = graph.invoke(given, THREAD, context=settings)["__interrupt__"][0]
    answer: Any = Command(resume={first.id: written(SOFTSIGN)})
    second = graph.invoke(answer, THREAD, context=settings)["__interrupt__"][0]
    assert (first.value["role"], second.value["role"]) == ("generator", "optimizer")
    again = graph.invoke(answer, THREAD, context=settings)["__interrupt__"][0]
    assert (again.id, again.value["role"]) == (second.id, "optimizer"), "it still waits"


def test_a_kernel_that_was_edited_in_a_fork_is_its_editors() -> None:
    model = ScriptedModel(answers={"generator": [written(SOFTSIGN)]})
    graph = build_graph(lambda spec, options: model, Scripted()).compile(checkpointer=InMemorySaver())
    settings = Settings(max_depth=0, target="cpu", sanitize=False)
    given: Any = {"source": SOURCE, "name": "softsign"}
    plain = RunState.model_validate(graph.invoke(given, THREAD, context=settings))
    assert plain.best is not None and plain.best.candidate.author.startswith("generator:")
    before = next(each for each in graph.get_state_history(THREAD) if each.next == ("tester",))
    edited = before.values["candidate"].model_copy(update={"source": FASTER})
    fork = graph.update_state(before.config, {"candidate": edited})
    ended = RunState.model_validate(graph.invoke(None, fork, context=settings))
    assert ended.best is not None
    assert (ended.best.candidate.source, ended.best.candidate.author) == (FASTER, "editor")
