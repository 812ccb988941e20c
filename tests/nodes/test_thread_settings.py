"""A thread's settings in plain Python: kept by its state, in force without being sent, and never with a secret."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from scripted_judge import Scripted
from softsign_script import RIGHT, SOURCE, written

from graph.evolution.workflow import build_graph as build_evolution
from graph.workflow import build_graph
from harness.nouns.errors import UserError
from nodes.evolution.state import EvolutionState
from nodes.models.manual import ManualModel
from nodes.settings import Proposer, Settings
from nodes.state import RunState
from nodes.thread_settings import ThreadSettings, in_force, kept_by, latest, to_keep

GIVEN = Settings(
    model="manual", target="cpu", max_depth=0, generations=1, proposals=1, sanitize=False, verifiers=(), archive="none"
)


def begun(settings: Settings = GIVEN) -> RunState:
    state = RunState(source=SOURCE)
    return state.model_copy(update={"settings": to_keep(settings, state)})


@pytest.mark.parametrize("build", [build_graph, build_evolution])
def test_a_question_is_answered_without_settings(build: Any) -> None:
    config: RunnableConfig = {"configurable": {"thread_id": "one"}}
    graph = build(lambda spec, options: ManualModel(), Scripted()).compile(checkpointer=InMemorySaver())
    graph.invoke({"source": SOURCE}, config, context=GIVEN)
    graph.invoke(Command(resume=written(RIGHT)), config)
    ended = graph.get_state(config)
    assert ended.next == ()
    assert ended.values["result"].best.candidate.source == RIGHT
    assert kept_by(graph_state(ended.values)) == GIVEN


def graph_state(values: dict[str, Any]) -> RunState | EvolutionState:
    return (EvolutionState if "pool" in values else RunState).model_validate(values)


def test_what_is_sent_comes_before_what_is_kept_also_where_it_is_a_default() -> None:
    state = begun()
    assert in_force(None, state) == GIVEN
    assert in_force(Settings(max_depth=12), state) == GIVEN.model_copy(update={"max_depth": 12})
    assert in_force(Settings(model="playbook"), RunState(source=SOURCE)) == Settings(model="playbook")
    assert in_force(None, RunState(source=SOURCE)) == Settings()


def test_another_source_has_settings_of_its_own() -> None:
    other = begun().model_copy(update={"source": SOURCE + "#"})
    assert kept_by(other) is None
    assert in_force(None, other) == Settings()


def test_only_what_changed_is_written_and_nodes_side_by_side_write_the_same() -> None:
    state = begun()
    assert to_keep(GIVEN, state) is None
    deeper = GIVEN.model_copy(update={"max_depth": 9})
    kept = to_keep(deeper, state)
    assert kept is not None and kept.settings == deeper
    assert latest(state.settings, kept) == latest(kept, None) == kept


@pytest.mark.parametrize(
    "secret",
    [
        Settings(base_url="https://me:word@example.org/v1"),
        Settings(optimizer_model="openai:m@https://example.org/v1?key=word"),
        Settings(proposers=(Proposer(model="openai:m@https://word@example.org"),)),
        Settings(archive="postgresql://me:word@example.org/db"),
    ],
)
def test_no_secret_comes_into_a_state(secret: Settings) -> None:
    with pytest.raises(UserError) as refused:
        to_keep(secret, RunState(source=SOURCE))
    assert "word@" not in str(refused.value) and "=word" not in str(refused.value)


def test_settings_survive_the_way_through_json() -> None:
    kept = begun(GIVEN.model_copy(update={"proposers": (Proposer(model="manual"),)})).settings
    assert kept is not None
    assert ThreadSettings.model_validate_json(kept.model_dump_json()) == kept
