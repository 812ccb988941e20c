"""A move that leaves values open: every variant built, judged in turn, the fastest one tested like any other kernel."""

from __future__ import annotations

import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from brief_judge import brief_here
from command_line import wait_until
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from softsign_script import RIGHT, SOURCE, serial, written

from graph.runs.store import checkpoint_types
from graph.workflow import build_graph
from knowledge.compiler.plan import Draft
from knowledge.compiler.problem import Problem
from knowledge.compiler.search.first import first_draft
from knowledge.compiler.search.moves import next_draft
from nodes.models.local import ScriptedModel
from nodes.models.playbook import PlaybookModel, problem_of
from nodes.request import Request
from nodes.settings import Settings
from nodes.state import RunState, Step
from nodes.turn.prompts import messages_for

INPUT: Any = {"source": SOURCE, "name": "softsign"}
HERE = Path(__file__).parent
LOOP = "again < 20"
assert LOOP in serial(20)

# As written it does its work 60 times over; 13 is wrong, and 7 does not compile.
SWEPT = (
    serial(20)
    .replace("    // LOOP", "    constexpr int kTimes = 60;  // sweep: 13, 7, 1\n    static_assert(kTimes != 7);")
    .replace(LOOP, "again < kTimes")
    .replace("1.0f + ", "(kTimes == 13 ? 2.0f : 1.0f) + ")
)
ONLY_FAILURES = SWEPT.replace("= 60;  // sweep: 13, 7, 1", "= 13;  // sweep: 7").replace(
    "static_assert(kTimes != 7);", "static_assert(kTimes != 7);  // judge: wrong"
)
FASTEST = SWEPT.replace("= 60;  // sweep: 13, 7, 1", "= 1;")


def run(model: ScriptedModel, **settings: Any) -> RunState:
    graph = build_graph(lambda spec, options: model).compile()
    context = Settings(target="cpu", sanitize=False, **settings)
    return RunState.model_validate(graph.invoke(INPUT, context=context))


def sweep_of(state: RunState) -> Step:
    [step] = [step for step in state.history if step.agent == "sweeper"]
    return step


@pytest.fixture(scope="module")
def swept() -> tuple[RunState, ScriptedModel]:
    model = ScriptedModel(
        answers={"generator": [written(RIGHT)], "optimizer": [written(SWEPT, "repetitions"), "DONE: enough"]}
    )
    with brief_here():
        return run(model), model


def test_the_fastest_right_variant_becomes_the_moves_kernel(swept: tuple[RunState, ScriptedModel]) -> None:
    state, _ = swept
    agents = [step.agent for step in state.history if step.agent != "profiler"]
    assert agents == ["generator", "tester", "optimizer", "sweeper", "tester", "optimizer"]
    assert state.best is not None
    assert state.best.candidate.source == FASTEST
    assert state.best.verdict.timing is not None
    assert state.best.verdict.timing.head_to_head is not None
    assert state.best.verdict.timing.head_to_head.interval.low > 1
    assert (state.depth, state.sweep) == (1, None)


def test_the_history_tells_each_variants_end(swept: tuple[RunState, ScriptedModel]) -> None:
    state, _ = swept
    step = sweep_of(state)
    assert [(each.values["kTimes"], each.status, each.chosen) for each in step.variants] == [
        ("60", "passed", False),
        ("13", "wrong", False),
        ("7", "build_failed", False),
        ("1", "passed", True),
    ]
    slow, wrong, unbuilt, fast = step.variants
    assert slow.latency_ms is not None
    assert fast.latency_ms is not None
    assert fast.latency_ms < slow.latency_ms
    assert "expected" in wrong.message
    assert "static assertion failed" in unbuilt.message
    assert state.best is not None
    assert (step.candidate, step.move) == (state.best.candidate.digest, "repetitions")
    assert step.message.startswith("2 of 4 variants are right; the fastest: kTimes = 1 (")


def test_every_variant_that_ran_is_paid_for(swept: tuple[RunState, ScriptedModel]) -> None:
    state, _ = swept
    assert state.attempts == 2 + 3, "two tests, and three variants that could be built"
    assert 0 < state.device_seconds < state.seconds


def test_the_next_prompt_shows_what_was_swept(swept: tuple[RunState, ScriptedModel]) -> None:
    state, model = swept
    first, second = (request for request in model.requests if request.role == "optimizer")
    assert "at most 12 in all" in "".join(message.text for message in messages_for(first))
    assert state.best is not None
    before = second.model_copy(update={"candidate": first.candidate})
    tried = messages_for(before)[1].text
    assert "- repetitions: kept" in tried
    assert "  - kTimes = 13: wrong" in tried
    assert re.search(r"  - kTimes = 1: [\d.]+x the kernel before the move", tried)


@pytest.mark.usefixtures("scripted")
def test_a_budget_that_is_spent_ends_the_sweep_but_not_what_it_found() -> None:
    model = ScriptedModel(answers={"generator": [written(RIGHT)], "optimizer": [written(SWEPT, "repetitions")]})
    state = run(model, max_attempts=3)
    step = sweep_of(state)
    assert [each.status for each in step.variants] == ["passed", None, None, None]
    assert [each.chosen for each in step.variants] == [True, False, False, False]
    last = state.history[-1]
    assert (last.agent, last.status, last.candidate) == ("tester", "passed", step.candidate)
    assert state.attempts == 3
    assert state.stop_reason is not None
    assert state.stop_reason.name == "attempts"
    assert state.best is not None
    assert state.best.candidate.source == RIGHT, "the variant as written is slower"


@pytest.mark.usefixtures("scripted")
def test_where_no_variant_is_right_the_first_one_is_diagnosed() -> None:
    model = ScriptedModel(
        answers={
            "generator": [written(RIGHT)],
            "optimizer": [written(ONLY_FAILURES, "repetitions"), "DONE: enough"],
            "diagnoser": ['{"intent": "i", "cause": "two", "evidence": "e", "fix": "one", "proof": "p"}'],
            "repairer": ["CANNOT: thirteen is thirteen"],
        }
    )
    state = run(model)
    step = sweep_of(state)
    assert [each.status for each in step.variants] == ["wrong", "wrong"]
    assert not any(each.chosen for each in step.variants)
    [diagnosed] = [request for request in model.requests if request.role == "diagnoser"]
    assert diagnosed.verdict is not None
    assert (diagnosed.verdict.status, diagnosed.verdict.candidate) == ("wrong", step.candidate)
    assert state.best is not None
    assert state.best.candidate.source == RIGHT


def without_the_sweep(request: Request) -> str:
    """The playbook's kernel after all of its moves but the sweep."""
    problem = problem_of(request)
    assert isinstance(problem, Problem)
    draft = first_draft(problem)
    assert isinstance(draft, Draft)
    while isinstance(following := next_draft(problem, draft.source, (), max_sweep=1), Draft):
        draft = following
    return written(draft.source)


@pytest.mark.usefixtures("scripted")
def test_the_playbook_sweeps_within_the_graph() -> None:
    generator = ScriptedModel(answers=[without_the_sweep])
    graph = build_graph(lambda spec, options: PlaybookModel() if spec == "playbook" else generator).compile()
    settings = Settings(target="cpu", sanitize=False, generator_model="scripted", max_sweep=3)
    state = RunState.model_validate(graph.invoke(INPUT, context=settings))
    step = sweep_of(state)
    assert step.move == "tile size"
    assert [(each.values["kTile"], each.status) for each in step.variants] == [
        ("2048", "passed"),
        ("512", "passed"),
        ("1024", "passed"),
    ]
    assert state.stop_reason is not None
    assert state.stop_reason.name == "no_moves_left"
    tested = [each for each in state.history if each.agent == "tester"]
    assert [(each.status, each.candidate) for each in tested[1:]] == [("passed", step.candidate)]


CHILD = """
import sys
from threading import Event
from unittest import mock
sys.path[:0] = sys.argv[1].split(":")
from scripted_judge import ScriptedJudge, judging_here
from test_sweep import CONFIG, INPUT, SWEPT, keeping
from softsign_script import RIGHT, written
from nodes.models.local import ScriptedModel
from nodes.settings import Settings

def build(judge, task, candidate):
    return Event().wait() if "kTimes = 13;" in candidate.source else built(judge, task, candidate)

built = ScriptedJudge.build
answers = {"generator": [written(RIGHT)], "optimizer": [written(SWEPT, "repetitions")]}
hanging = mock.patch.object(ScriptedJudge, "build", build)
with judging_here(), hanging, keeping(sys.argv[2], ScriptedModel(answers=answers)) as graph:
    graph.invoke(INPUT, CONFIG, context=Settings(target="cpu", sanitize=False), durability="sync")
"""
CONFIG: Any = {"configurable": {"thread_id": "one"}}


@contextmanager
def keeping(folder: str, model: ScriptedModel) -> Iterator[Any]:
    """The graph with its checkpoints in a file."""
    serde = JsonPlusSerializer(allowed_msgpack_modules=checkpoint_types())
    with closing(sqlite3.connect(Path(folder) / "c.sqlite", check_same_thread=False, timeout=10)) as connection:
        yield build_graph(lambda spec, options: model).compile(checkpointer=SqliteSaver(connection, serde=serde))


@pytest.mark.usefixtures("scripted")
def test_kill_9_in_the_middle_of_a_sweep_repeats_only_the_sweep(tmp_path: Path) -> None:
    """One of its variants takes for ever to build, until the process is killed."""
    child = subprocess.Popen([sys.executable, "-c", CHILD, f"{HERE}:{HERE.parent / 'support'}", str(tmp_path)])
    model = ScriptedModel(answers={"optimizer": ["DONE: enough"]})
    with keeping(str(tmp_path), model) as graph:
        wait_until(lambda: graph.get_state(CONFIG).next == ("sweeper",) or child.poll() is not None, "the sweep")
        child.kill()
        assert child.wait() == -signal.SIGKILL
        before = RunState.model_validate(graph.get_state(CONFIG).values)
        assert before.sweep is not None
        context = Settings(target="cpu", sanitize=False)
        state = RunState.model_validate(graph.invoke(None, CONFIG, context=context, durability="sync"))
    assert state.history[: len(before.history)] == before.history
    assert [step.agent for step in state.history].count("generator") == 1
    assert model.calls() == 1, "the sweep's own answer is not asked for again"
    assert [each.status for each in sweep_of(state).variants] == ["passed"] * 4
