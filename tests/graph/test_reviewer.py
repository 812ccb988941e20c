"""A reviewer in both graphs: what it is shown and what not, and who is told its plan; the judge is scripted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from evolution_script import Evolved, answer, name_of
from scripted_judge import Scripted
from softsign_script import FASTER, RIGHT, SLOWER, SOURCE, written

from graph.workflow import build_graph
from harness.nouns.errors import UserError
from nodes.models.local import ScriptedModel
from nodes.request import Request
from nodes.settings import Settings
from nodes.state import RunState
from nodes.turn.prompts import messages_for

BOAST = "the writer promises ten times"
PROUD = FASTER.replace("#pragma omp simd", f"// {BOAST}\n#pragma omp simd")


def reviewed(*plan: str) -> str:
    said = {"changed": "vectors", "shown": ["line 15: none"], "doubts": ["line 9 may alias"], "plan": plan}
    return json.dumps(said)


class Run:
    """A trajectory by two models, one of which only reviews."""

    def __init__(self, says: list[Any], moves: list[str], **settings: Any) -> None:
        self.author = ScriptedModel(answers={"generator": [written(RIGHT)], "optimizer": [*moves, "DONE: enough"]})
        self.reviewer = ScriptedModel(answers=says, repeat_last=True)
        models = {"author": self.author, "other": self.reviewer}
        graph = build_graph(lambda spec, _: models[spec], Scripted()).compile()
        given: Any = {"source": SOURCE, "name": "softsign"}
        chosen = Settings(**{"model": "author", "reviewer_model": "other", "max_tool_calls": 0, **settings})
        self.state = RunState.model_validate(graph.invoke(given, context=chosen))


def text(request: Request) -> str:
    return "\n".join(message.text for message in messages_for(request))


def test_it_sees_difference_build_and_verdict_and_not_the_writers_words() -> None:
    moves = [written(PROUD, f"SIMD, {BOAST}"), written(SLOWER, "more work")]
    run = Run([reviewed("first plan"), reviewed("second plan", "another")], moves)
    assert [step.agent for step in run.state.history if step.agent not in ("tester", "profiler")] == [
        "generator", *["reviewer", "optimizer"] * 3, "sanitizer",
    ]  # fmt: skip
    first, second, third = run.reviewer.requests
    assert first.compared and first.compared.whole and "volatile" in first.compared.diff
    assert second.compared and not second.compared.whole and "+#pragma omp simd" in text(second)
    assert "rounds: 0.022x" in text(third), "a move that was not kept is reviewed, too"
    for request in run.reviewer.requests:
        assert BOAST not in text(request) and "it should help" not in text(request)
        assert request.candidate and request.compared and "//" not in request.candidate.source + request.compared.diff
    assert "first plan" in text(second) and "second plan" not in text(second), "what it planned itself it may know"


def test_the_optimizer_is_told_what_it_says() -> None:
    run = Run([reviewed("first plan"), reviewed("second plan", "another")], [written(PROUD, "SIMD")])
    first, second = [text(each) for each in run.author.requests if each.role == "optimizer"]
    assert "1. first plan" in first and "doubt: line 9 may alias" in first
    assert "1. second plan\n2. another" in second and "first plan" not in second
    told = [step for step in run.state.history if step.agent == "reviewer"]
    assert told[1].message == "line 9 may alias Next: second plan Next: another" and told[1].usage.calls == 1
    assert run.state.best is not None and run.state.best.candidate.source == PROUD


def test_one_who_says_nothing_stops_nobody() -> None:
    run = Run([reviewed("first plan"), "Looks good to me."], [written(PROUD, "SIMD")], max_reasks=1)
    second = [text(each) for each in run.author.requests if each.role == "optimizer"][1]
    assert "What a reviewer says" not in second, "an old word is none on a new kernel"
    assert run.state.stop_reason is not None and run.state.stop_reason.message == "enough"


def test_the_playbook_is_none() -> None:
    with pytest.raises(UserError, match="The playbook reviews no kernels"):
        Run([], [], reviewer_model="playbook")


def test_proposers_are_told_what_it_says_of_each_new_best_kernel(tmp_path: Path) -> None:
    def author(request: Request) -> str:
        assert request.left is not None
        return answer(name_of(request), f"passed {min(2, request.left.depth)}x")

    said = [reviewed("wider"), reviewed("fewer passes")]
    run = Evolved(
        tmp_path, {"one": author, "other": lambda _: said.pop(0)}, generations=4, proposals=1, reviewer_model="other"
    )
    end = run.go()
    assert [each.compared.whole for each in run.models["other"].requests if each.compared] == [True, False]
    assert "g2m" in run.models["other"].requests[1].compared.diff  # type: ignore[union-attr]
    plans = [each.critique.plan if each.critique else () for each in run.models["one"].requests]
    assert plans == [(), ("wider",), ("fewer passes",), ("fewer passes",)]
    assert end.best is not None and end.reviewed == end.best.candidate.digest
