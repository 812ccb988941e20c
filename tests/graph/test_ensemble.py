"""Models that race on one move, in the whole graph with a scripted judge."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from scripted_judge import Scripted
from softsign_script import FASTER, RIGHT, SLOWER, SOURCE, WRONG, written

from graph.workflow import build_graph
from nodes.models.local import ScriptedModel
from nodes.settings import Settings
from nodes.state import RunState
from nodes.turn.race import cheapest_first

PRICES: Any = {"dear": {"input": 10, "output": 30}, "cheap": {"input": 0.1, "output": 0.4}}


class Race:
    """A trajectory of one move for which two models are asked."""

    def __init__(self, cheap: str, dear: str, **settings: Any) -> None:
        self.models = {
            "author": ScriptedModel(answers={"generator": [written(RIGHT)], "optimizer": ["DONE: not asked"]}),
            "first": ScriptedModel(answers=[cheap], repeat_last=True),
            "second": ScriptedModel(answers=[dear], repeat_last=True),
        }
        graph = build_graph(lambda spec, _: self.models[spec], Scripted()).compile(checkpointer=InMemorySaver())
        chosen = Settings(
            model="author", optimizer_ensemble=("first", "second"), max_tool_calls=0, max_depth=1, **settings
        )
        given: Any = {"source": SOURCE, "name": "softsign"}
        self.state = RunState.model_validate(
            graph.invoke(given, {"configurable": {"thread_id": "race"}}, context=chosen)
        )

    def asked(self, name: str) -> int:
        return len(self.models[name].requests)


def test_a_cheap_move_that_wins_spares_the_dear_model() -> None:
    race = Race(written(FASTER, "vectors"), written(SLOWER, "more work"))
    assert (race.asked("first"), race.asked("second")) == (1, 0)
    assert race.state.best and race.state.best.candidate.author == "optimizer:first"
    assert race.state.best.candidate.source.strip() == FASTER.strip()


@pytest.mark.parametrize("cheap", [written(SLOWER, "more work"), written(WRONG, "less"), "DONE: nothing"])
def test_where_the_cheap_one_wins_nothing_the_dear_one_is_asked_on_the_same_kernel(cheap: str) -> None:
    race = Race(cheap, written(FASTER, "vectors"))
    assert (race.asked("first"), race.asked("second")) == (1, 1)
    assert race.state.best and race.state.best.candidate.author == "optimizer:second"
    [one], [other] = (race.models[name].requests for name in ("first", "second"))
    assert one.candidate == other.candidate and one.history == other.history
    calls = [step.usage.calls for step in race.state.history if step.agent == "optimizer"]
    assert calls == [2], "both are paid for"


def test_of_two_that_win_nothing_the_one_that_can_be_mended_is_the_move() -> None:
    race = Race("DONE: nothing", written(SLOWER, "more work"))
    moves = [step.move for step in race.state.history if step.agent == "optimizer"]
    assert moves == ["more work"]


def test_the_cheapest_is_asked_first_and_what_has_no_price_last() -> None:
    at = "@http://127.0.0.1:1/v1"
    named = (f"openai:unknown{at}", f"openai:dear{at}", f"openai:cheap{at}", "playbook")
    settings = Settings(optimizer_ensemble=named, prices=PRICES)
    assert cheapest_first(settings) == ("playbook", f"openai:cheap{at}", f"openai:dear{at}", f"openai:unknown{at}")
    assert settings.addresses()["optimizer_ensemble"] == ["http://127.0.0.1:1/v1"] * 3
