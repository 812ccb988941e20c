"""How a run ends: the sanitizer's word on the final kernel, and what becomes of a finding."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage
from scripted_judge import Scripted
from softsign_script import FASTER, RIGHT, SOURCE, diagnosed, edited, written

from graph.workflow import build_graph
from nodes.models.local import ScriptedModel
from nodes.settings import Settings
from nodes.state import RunState
from nodes.turn.prompts import messages_for

STRAY_4, STRAY_3 = (f"    float* own = new float[4](); volatile float stray = own[{i}]; delete[] own;" for i in (4, 3))
FINDING = "  // judge: finding heap-buffer-overflow of own"
STRAY = STRAY_4 + FINDING
FAULTY = FASTER.replace("    #pragma omp simd", f"{STRAY}\n    #pragma omp simd", 1)


def ended_with_a_fault(
    repairs: list[str], looks: tuple[AIMessage, ...] = (), **settings: Any
) -> tuple[RunState, ScriptedModel, list[Any]]:
    """A run whose final kernel reads past its own memory, the model, and what each agent did after the last move."""
    model = ScriptedModel(answers={
        "generator": [written(RIGHT)], "optimizer": [written(FAULTY, "SIMD"), "DONE: enough"],
        "diagnoser": [*looks, *[diagnosed("own has four elements, and the fifth is read")] * len(repairs)],
        "repairer": repairs,
    })  # fmt: skip
    graph = build_graph(lambda spec, options: model, Scripted()).compile()
    task: Any = {"source": SOURCE, "name": "softsign"}
    state = RunState.model_validate(graph.invoke(task, context=Settings(**settings)))
    last = max(number for number, step in enumerate(state.history) if step.agent == "optimizer")
    return state, model, [(step.agent, step.status) for step in state.history[last + 1 :]]


def test_a_final_kernel_with_a_memory_error_is_repaired_like_any_that_fails() -> None:
    no_better = edited(FAULTY, "own[4]", STRAY.replace("own[4]", "own[5]"))
    mended = edited(FAULTY.replace("own[4]", "own[5]"), "own[5]", STRAY_3)
    call = {"type": "tool_call", "id": "c1", "name": "sanitize_kernel", "args": {"source": FAULTY}}
    state, model, after = ended_with_a_fault([no_better, mended], looks=(AIMessage("", tool_calls=[call]),))
    one_repair: list[Any] = [("diagnoser", None), ("repairer", None), ("tester", "passed")]
    assert after == [
        ("sanitizer", "refused"), *one_repair, ("sanitizer", "refused"), *one_repair, ("sanitizer", "passed"),
    ]  # fmt: skip
    assert state.result is not None
    assert state.result.best is not None
    assert state.result.best.candidate.source == FAULTY.replace(STRAY, STRAY_3)
    assert state.result.stop.name == "no_moves_left"
    assert (state.depth, state.attempts) == (1, 4)  # a repair is no further optimization
    assert [held.candidate.source for held in state.earlier] == [RIGHT]
    asked = next(request for request in model.requests if request.role == "diagnoser")
    question = messages_for(asked)[1].text
    assert "heap-buffer-overflow" in question
    assert state.usage.device_seconds > 0, "the diagnoser had the kernel watched itself"
    assert "Its results were right on every input" in question
    assert {step.move for step in state.history if step.agent in ("diagnoser", "repairer")} == {"SIMD"}


def test_a_repair_that_still_has_the_fault_and_one_that_does_not_compile_leave_the_best_kernel_before_it() -> None:
    no_better = edited(FAULTY, "own[4]", STRAY.replace("own[4]", "own[5]"))
    broken = edited(FAULTY.replace("own[4]", "own[5]"), "own[5]", f"{STRAY_4} oh  // judge: build_failed oh")
    state, _, after = ended_with_a_fault([no_better, broken], max_repairs=2)
    repair: list[Any] = [("diagnoser", None), ("repairer", None)]
    assert after == [
        ("sanitizer", "refused"), *repair, ("tester", "passed"),
        ("sanitizer", "refused"), *repair, ("tester", "build_failed"), ("sanitizer", "passed"),
    ]  # fmt: skip
    assert state.result is not None
    assert state.result.best is not None
    assert state.result.best.candidate.source == RIGHT
    assert (state.result.stop.name, state.earlier) == ("no_moves_left", ())


def test_a_run_whose_budget_is_spent_repairs_nothing() -> None:
    state, _, after = ended_with_a_fault([], max_attempts=2)
    assert after == [("tester", "passed"), ("sanitizer", "refused"), ("sanitizer", "passed")]
    assert state.result is not None
    assert state.result.best is not None
    assert state.result.best.candidate.source == RIGHT
    assert state.result.stop.name == "attempts"
