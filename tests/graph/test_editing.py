"""Edits of a thread from Python: what the state has no place for is refused in a sentence, and the thread stays."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END
from langgraph.types import Overwrite, StateUpdate
from run_samples import kernel, passed, run
from scripted_judge import Scripted

from graph.editing import StateEditError
from graph.evolution.workflow import build_graph as build_evolution
from graph.model.workflow import build_model_graph
from graph.workflow import build_graph
from nodes.state import RunState

ON: RunnableConfig = {"configurable": {"thread_id": "one"}}
DONE = dict(run(verdict=passed(kernel(), 2.0), candidate=kernel()))
WRONG: tuple[tuple[Any, str], ...] = (
    ({"teir": "none"}, "teir is not valid: no field of the state has that name; tier is near."),
    ({"anything": 1}, "anything is not valid: no field of the state has that name."),
    ({"tier": "glass"}, "tier is not valid: it should be 'bubblewrap', 'landlock' or 'none'."),
    ({"attempts": "many"}, "attempts is not valid: it should be a valid integer"),
    (
        {"candidate": {"sauce": "x"}},
        "candidate.sauce is not valid: no field of the state has that name; source is near.",
    ),
    ({"candidate": {"target": "cpu", "author": "me"}}, "candidate.source is not valid: it is missing."),
    ({"candidate": "int main"}, "candidate is not valid: what is given is no JSON object with named fields."),
    ({"history": Overwrite([{"dept": 1}])}, "history.0.dept is not valid: no field of the state has that name; depth"),
    ({"source": None}, "source is not valid: it should be a valid string."),
    ({"task": None}, "The state is not valid: a verdict in this state is one on another task."),
    ("tier", "The edit is not valid: what is given is no JSON object with named fields."),
)


def thread_of(graph: Any, values: dict[str, Any], node: str) -> Any:
    compiled = graph.compile(checkpointer=InMemorySaver())
    compiled.update_state(ON, values, as_node=node)
    return compiled


@pytest.mark.parametrize(("edit", "said"), WRONG, ids=[said[:20] for _, said in WRONG])
@pytest.mark.parametrize("node", ["tester", "reporter"])
def test_what_the_state_has_no_place_for_is_said_and_not_written(edit: Any, said: str, node: str) -> None:
    """Whoever is said to have written it: behind the reporter nobody reads the state."""
    thread = thread_of(build_graph(open_judge=Scripted()), DONE, "tester")
    for bad in (thread.update_state, lambda *given, **more: asyncio.run(thread.aupdate_state(*given, **more))):
        with pytest.raises(StateEditError) as refused:
            bad(ON, edit, as_node=node)
        assert str(refused.value).startswith(said)
    assert RunState.model_validate(thread.get_state(ON).values) == RunState.model_validate(DONE)


def test_edits_that_fit_are_written_also_several_at_once_and_over_a_sum() -> None:
    thread = thread_of(build_graph(open_judge=Scripted()), DONE, "tester")
    edits = [[StateUpdate({"name": "mine"}, "tester")], [StateUpdate({"history": Overwrite([])}, "tester")]]
    thread.bulk_update_state(ON, edits)
    now = RunState.model_validate(thread.get_state(ON).values)
    assert (now.name, now.history) == ("mine", ())
    edits[1] = [StateUpdate({"seconds": {"__overwrite__": "soon"}}, "tester")]
    with pytest.raises(StateEditError, match="seconds is not valid"):
        thread.bulk_update_state(ON, edits)
    thread.update_state(ON, None, as_node=END)
    assert thread.get_state(ON).next == ()


@pytest.mark.parametrize(
    ("graph", "node", "edit", "near"),
    [(build_evolution, "intake", {"pol": []}, "pool"), (build_model_graph, "capture", {"outcome": []}, "outcomes")],
)
def test_the_other_graphs_say_it_too(graph: Any, node: str, edit: dict[str, Any], near: str) -> None:
    thread = thread_of(graph(), {"source": "x"}, node)
    with pytest.raises(StateEditError, match=f"no field of the state has that name; {near} is near"):
        thread.update_state(ON, edit, as_node=node)
