"""Two inputs on one thread: two tasks are two runs, the same task goes deeper from its best kernel."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import ValidationError
from run_samples import best, kernel, passed, run
from softsign_script import FASTER, RIGHT, SOURCE, written

from graph.workflow import build_graph
from harness.nouns.task import Task
from nodes.agents.intake import best_to_go_on_from
from nodes.models.local import ScriptedModel
from nodes.settings import Settings
from nodes.state import RunState

TANH = SOURCE.replace("x / (1 + torch.abs(x))", "torch.tanh(x)")
TANH_KERNEL = RIGHT.replace("v / (1.0f + std::fabs(v))", "std::tanh(v)")
SHALLOW = Settings(max_depth=0, target="cpu", sanitize=False)


class Thread:
    """One thread of the real graph, and a model that says what it is told to."""

    def __init__(self, **answers: list[Any]) -> None:
        self.model = ScriptedModel(answers=answers)  # type: ignore[arg-type]
        self.graph = build_graph(lambda spec, options: self.model).compile(checkpointer=InMemorySaver())
        self.config: RunnableConfig = {"configurable": {"thread_id": "one"}}

    def give(self, source: str, settings: Settings = SHALLOW, name: str = "softsign") -> RunState:
        given: Any = {"source": source, "name": name}
        return RunState.model_validate(self.graph.invoke(given, self.config, context=settings))


@pytest.mark.usefixtures("brief")
def test_a_second_task_on_a_thread_is_a_run_of_its_own() -> None:
    thread = Thread(generator=[written(RIGHT), written(RIGHT), written(TANH_KERNEL)])
    first = thread.give(SOURCE)
    wrong = thread.give(TANH, SHALLOW.model_copy(update={"max_repairs": 0, "max_regenerations": 0}), "tanh")
    assert first.result is not None
    assert first.result.best is not None
    assert wrong.verdict is not None
    assert wrong.verdict.status == "wrong", "the first task's kernel is none of the second's"
    assert wrong.result is not None
    assert (wrong.result.best, wrong.result.improved, wrong.result.attempts) == (None, False, 1)
    third = thread.give(TANH, name="tanh")
    assert third.result is not None
    assert third.result.best is not None
    assert third.result.best.candidate.source == TANH_KERNEL
    assert third.result.best.verdict.task == third.task_digest != first.task_digest
    assert [step.agent for step in third.history] == ["generator", "tester"]
    assert (third.usage.calls, third.name, third.depth) == (1, "tanh", 0)
    assert third.seconds < first.seconds + wrong.seconds + third.seconds


@pytest.mark.usefixtures("scripted")
def test_the_same_task_goes_deeper_from_its_best() -> None:
    thread = Thread(generator=[written(RIGHT)], optimizer=[written(FASTER, "SIMD")])
    first = thread.give(SOURCE)
    again = thread.give(SOURCE)
    assert again.history == first.history, "what the settings allow has been done"
    assert again.result is not None
    assert again.result.stop.name == "depth"
    deeper = thread.give(SOURCE, SHALLOW.model_copy(update={"max_depth": 1}))
    assert [step.agent for step in deeper.history] == ["generator", "tester", "optimizer", "tester"]
    assert deeper.history[:2] == first.history
    assert (deeper.depth, deeper.attempts, deeper.usage.calls) == (1, 2, 2)
    assert deeper.result is not None
    assert deeper.result.best is not None
    assert deeper.result.best.candidate.source == FASTER
    [asked] = [request for request in thread.model.requests if request.role == "optimizer"]
    assert asked.candidate is not None
    assert asked.candidate.source == RIGHT


@pytest.mark.usefixtures("scripted")
def test_a_best_that_was_judged_otherwise_is_nothing_to_go_on_from() -> None:
    state, changed = run(best=best()), {"tolerance": 2.0}
    assert best_to_go_on_from(state, "cpu", "none", SHALLOW) == state.best
    assert best_to_go_on_from(state, "cpu", "none", SHALLOW.model_copy(update=changed)) is None
    assert best_to_go_on_from(state, "cuda", "none", SHALLOW) is None
    assert best_to_go_on_from(state, "cpu", "landlock", SHALLOW) is None


@pytest.mark.usefixtures("scripted")
def test_a_precision_is_another_judge_on_a_gpu_and_the_same_one_on_a_processor() -> None:
    state = run(best=best())
    assert state.best is not None and state.best.verdict.precision == "ieee"
    on_gpu = state.model_copy(update={"target": "cuda"})
    for precision, same in (("ieee", True), ("default", False), ("tf32", False)):
        asked = SHALLOW.model_copy(update={"precision": precision})
        assert best_to_go_on_from(state, "cpu", "none", asked) == state.best
        assert best_to_go_on_from(on_gpu, "cuda", "none", asked) == (state.best if same else None)


@pytest.mark.usefixtures("scripted")
@pytest.mark.parametrize("place", ["verdict", "best", "earlier"])
def test_no_state_mixes_two_tasks(place: str) -> None:
    held = {"verdict": passed(kernel(), 2.0), "best": best(), "earlier": (best(),)}[place]
    state = run(**{place: held})
    assert state.task is not None
    other: Task = state.task.model_copy(update={"source": "class Model: other"})
    with pytest.raises(ValidationError, match="on another task"):
        run(**{place: held, "task": other})
