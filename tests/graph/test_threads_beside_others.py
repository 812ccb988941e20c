"""A move that changes a kernel's threads, judged for real while both cores burn: the final decides on it."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from bench.duels import KERNEL, TASK, spinning
from brief_terms import brief
from own_turns import own_turns
from softsign_script import written

from graph.workflow import build_graph
from harness.judging.local import LocalJudge
from harness.judging.protocol import JudgeOrder
from harness.nouns.candidate import Candidate
from harness.processes.trusted_child import usable_threads
from harness.targets.select import resolve_target
from nodes.models.local import ScriptedModel
from nodes.settings import Settings
from nodes.state import RunState
from nodes.turn.prompts import parts_of
from tools.judges import terms_of

ELEMENTS = 1 << 14
THREADS = KERNEL.format(twin="", extra=1000)
ALONE = KERNEL.format(twin="", extra=0).replace("#pragma omp parallel for schedule(static)\n", "")
"""Half the work, on one thread instead of two: as fast to who waits for it, and no clock beside others can tell."""


@cache
def judge(order: JudgeOrder) -> LocalJudge:
    return LocalJudge(resolve_target(order.target, order.ordinal), brief(terms_of(order)))


@pytest.mark.skipif(usable_threads() < 2, reason="there is one thread")
def test_a_move_of_threads_that_wall_time_leaves_open_waits_for_the_final_and_costs_nothing() -> None:
    first, moved = (Candidate(source=source, target="cpu", author="test").digest for source in (ALONE, THREADS))
    answers = {"generator": [written(ALONE)], "optimizer": [written(THREADS, "threads"), "DONE: enough"]}
    model = ScriptedModel(answers=answers)
    given: Any = {"source": TASK.format(elements=ELEMENTS), "name": "softsign"}
    settings = Settings(target="cpu", max_tool_calls=0, sanitize=False, serve_batches=False)
    with own_turns(), spinning(usable_threads(), 1.0, 0.0):
        graph = build_graph(lambda spec, options: model, judge).compile()
        state = RunState.model_validate(graph.invoke(given, context=settings))
    _, test = (step for step in state.history if step.agent == "tester")
    assert (test.candidate, test.status, test.undecided, state.depth) == (moved, "passed", True, 0)
    met = test.head_to_head
    assert met is not None and (met.incumbent, met.measure) == (first, "wall time")
    assert met.alone == "they use threads differently"
    told = parts_of([each for each in model.requests if each.role == "optimizer"][-1]).question
    assert ", by wall time alone, because they use threads differently" in told
    assert [each.role for each in model.requests] == ["generator", "optimizer", "optimizer"], "nobody is asked again"
    assert state.result is not None
    assert {each.candidate for each in state.result.final.standings} == {first, moved}, state.result.final.note
    assert state.undecided == ()
