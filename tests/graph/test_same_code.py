"""A kernel whose machine code this run has judged is not judged again, and is no depth."""

from __future__ import annotations

from typing import Any

import pytest
from scripted_judge import Scripted
from softsign_script import FASTER, RIGHT, SLOWER, SOURCE, WRONG, written

from graph.workflow import build_graph
from harness.nouns.candidate import Candidate
from nodes.models.local import ScriptedModel
from nodes.settings import Settings
from nodes.state import RunState, Step
from nodes.turn.prompts import parts_of


def coded(source: str, name: str) -> str:
    return f"{source}// judge: code {name}\n"


def played(**answers: list[str]) -> tuple[RunState, Scripted, ScriptedModel]:
    model, judges = ScriptedModel(answers={**answers}), Scripted()
    graph = build_graph(lambda spec, options: model, judges).compile()
    given: Any = {"source": SOURCE, "name": "softsign"}
    settings = Settings(diagnose="every", max_depth=5)
    return RunState.model_validate(graph.invoke(given, context=settings)), judges, model


def ran(judges: Scripted) -> list[str]:
    return [digest for method, digest in judges.asked if method == "evaluate"]


def digest(source: str) -> str:
    return Candidate(source=source, target="cpu", author="test").digest


def judged(state: RunState) -> list[Step]:
    return [step for step in state.history if step.agent == "tester"]


@pytest.mark.parametrize("like", ["the best", "an earlier best", "one not kept"])
def test_the_same_machine_code_is_answered_at_once_and_costs_no_depth(like: str) -> None:
    first, best, lost = coded(RIGHT, "A"), coded(FASTER, "B"), coded(SLOWER, "C")
    kernel = {"the best": best, "an earlier best": first, "one not kept": lost}[like]
    again = kernel + "// other words\n"
    moves = [written(lost, "more: work"), written(best, "vectors"), written(again, "renamed"), "DONE: enough"]
    state, judges, model = played(generator=[written(first)], optimizer=moves)
    assert ran(judges) == [digest(first), digest(lost), digest(best)]
    *_, renamed = judged(state)
    assert (renamed.candidate, renamed.status, renamed.improved) == (digest(again), "passed", False)
    (number,) = [
        at
        for at, step in enumerate(state.history, start=1)
        if step.agent == "tester" and step.candidate == digest(kernel)
    ]
    assert f"the same machine code as step {number}" in renamed.message
    assert (state.depth, state.attempts) == (2, 4)
    assert state.best is not None and state.best.candidate.source == best
    asked = [each for each in model.requests if each.role == "optimizer"]
    told = parts_of(asked[-1]).question
    assert f"- renamed: not kept; the same machine code as step {number}" in told, told
    assert "the user" not in told, "nobody has said that"
    assert asked[-1].candidate is not None and asked[-1].candidate.source == best


def test_a_repair_that_changes_nothing_that_runs_fails_as_before_and_says_so() -> None:
    wrong = coded(WRONG, "A")
    diagnosis = '{"intent": "i", "cause": "c", "evidence": "e", "fix": "f", "proof": "p"}'
    edit = '{"edits": [{"kind": "insert", "line": 0, "expected": "", "text": "// the same"}]}'
    state, judges, model = played(generator=[written(wrong)] * 9, diagnoser=[diagnosis] * 9, repairer=[edit] * 9)
    first, second, third, *_ = judged(state)
    assert (first.status, second.status) == ("wrong", "wrong")
    assert len({first.candidate, second.candidate, third.candidate}) == 3 and set(ran(judges)) == {digest(wrong)}
    assert third.message == second.message
    assert second.message.startswith("correctness: It is the machine code that was judged before. output is wrong")
    asked = [each for each in model.requests if each.role == "diagnoser"]
    assert "It is the machine code that was judged before." in parts_of(asked[1]).question
