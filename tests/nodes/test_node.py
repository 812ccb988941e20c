"""What a node writes is checked before it can reach a checkpoint, and its time is taken."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from langgraph.runtime import Runtime
from pydantic import BaseModel, ValidationError
from run_samples import best, kernel, passed, run

from nodes.models.local import ScriptedModel
from nodes.models.select import ModelOptions
from nodes.settings import Settings
from nodes.state import RunState, Step, TaskInput, Usage, require
from nodes.turn.node import ModelCache, NodeContext, StateWriteError, as_node, validated


def opened(spec: str, options: ModelOptions) -> ScriptedModel:
    return ScriptedModel(answers=[spec])


SHELF = ModelCache(opened)


def test_right_values_pass_unchanged() -> None:
    update = {"candidate": kernel(), "depth": 2, "best": best(), "verdict": None, "usage": Usage(calls=1)}
    assert validated(update, RunState, writer="tester") == update


@pytest.mark.parametrize(
    ("update", "told"),
    [
        ({"verdikt": None}, 'the tester wrote "verdikt", which is no field'),
        ({"depth": "2"}, 'the tester wrote a wrong "depth"'),
        ({"depth": None}, 'wrong "depth"'),
        ({"candidate": {"source": "x"}}, 'wrong "candidate"'),
        ({"history": Step(depth=0, agent="tester")}, 'wrong "history"'),
        ({"history": (best(),)}, 'wrong "history"'),
        ({"usage": SimpleNamespace(calls=1)}, 'wrong "usage"'),
    ],
)
def test_a_wrong_write_is_an_error_that_names_the_writer_and_the_field(update: dict[str, Any], told: str) -> None:
    with pytest.raises(StateWriteError, match=told):
        validated(update, RunState, writer="tester")


def test_the_seconds_go_into_the_steps_and_the_clock() -> None:
    seen: list[NodeContext] = []

    def agent(state: RunState, node_context: NodeContext) -> dict[str, Any]:
        seen.append(node_context)
        return {"depth": state.depth + 1, "history": (Step(depth=1, agent="tester"),)}

    update = as_node(agent, SHELF)(run(depth=3), runtime=Runtime(context=Settings(max_depth=1)))
    assert update["depth"] == 4
    assert update["seconds"] == update["history"][0].seconds > 0
    assert seen[0].settings.max_depth == 1


def test_a_turn_that_was_broken_off_counts_with_all_it_took() -> None:
    def agent(state: RunState, node_context: NodeContext) -> dict[str, Any]:
        spent = Usage(calls=2, seconds=500.0, device_seconds=40.0)
        return {"usage": spent, "history": (Step(depth=0, agent="optimizer"),)}

    update = as_node(agent, SHELF)(run(), runtime=Runtime())
    assert update["seconds"] == update["history"][0].seconds == 540.0


def test_without_a_context_the_defaults_hold() -> None:
    def agent(state: RunState, node_context: NodeContext) -> dict[str, Any]:
        return {"move": node_context.settings.model}

    assert as_node(agent, SHELF)(run(), runtime=Runtime())["move"] == "playbook"


def test_a_misspelt_field_of_an_agent_does_not_get_through() -> None:
    def agent(state: RunState, node_context: NodeContext) -> dict[str, Any]:
        return {"attempt": 1}

    with pytest.raises(StateWriteError, match="the agent wrote"):
        as_node(agent, SHELF)(run(), runtime=Runtime())


def test_a_run_keeps_its_models_and_shares_none_with_another() -> None:
    shop = NodeContext(settings=Settings(optimizer_model="other"), shelf=SHELF, thread_id="a")
    assert shop.model("generator") is shop.model("repairer")
    assert shop.model("generator") is not shop.model("optimizer")
    neighbour = NodeContext(settings=Settings(), shelf=SHELF, thread_id="b")
    assert neighbour.model("generator") is not shop.model("generator")


def test_the_shelf_does_not_grow_for_ever() -> None:
    shelf = ModelCache(opened)
    first = shelf.get("0", "playbook", ModelOptions())
    for number in range(1, 200):
        shelf.get(str(number), "playbook", ModelOptions())
    assert shelf.get("199", "playbook", ModelOptions()) is shelf.get("199", "playbook", ModelOptions())
    assert shelf.get("0", "playbook", ModelOptions()) is not first


def test_a_missing_field_is_an_error_of_the_wiring() -> None:
    assert require(best(), "best") == best()
    with pytest.raises(RuntimeError, match='no "task" yet'):
        require(None, "task")


def test_costs_add_up() -> None:
    total = Usage(calls=1, input_tokens=3, dollars=0.5) + Usage(calls=2, output_tokens=4, seconds=1.5)
    assert total == Usage(calls=3, input_tokens=3, output_tokens=4, dollars=0.5, seconds=1.5)
    assert total.tokens == 7


@pytest.mark.parametrize(
    "wrong", [{"max_depth": -1}, {"max_dollars": 0}, {"patience": 0}, {"depth": 3}, {"seed": 2**63}]
)
def test_settings_out_of_bounds_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Settings(**wrong)


@pytest.mark.parametrize("model", [Settings, TaskInput])
def test_every_field_of_the_forms_has_a_title(model: type[BaseModel]) -> None:
    assert all(field.title for field in model.model_fields.values())


def test_the_state_survives_json() -> None:
    state = run(
        candidate=kernel(), verdict=passed(kernel(), 1.5), best=best(), history=(Step(depth=0, agent="tester"),)
    )
    assert RunState.model_validate_json(state.model_dump_json()) == state
