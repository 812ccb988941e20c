"""The real graph from its start to its end; the models' words and the judge's are scripted."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from scripted_judge import Scripted
from softsign_script import (
    DOES_NOT_COMPILE,
    FASTER,
    RIGHT,
    SLOWER,
    SOURCE,
    UNKNOWN,
    WRONG,
    constant_line,
    diagnosed,
    edited,
    line_of,
    with_constant,
    written,
)

from graph.runs.store import checkpoint_types
from graph.workflow import build_graph
from nodes.models.errors import ScriptExhaustedError
from nodes.models.local import ScriptedModel
from nodes.models.replay import ReplayModel
from nodes.request import Request
from nodes.settings import Gates, Settings
from nodes.state import Result, RunState
from nodes.turn.prompts import messages_for

INPUT: Any = {"source": SOURCE, "name": "softsign"}
FASTER_BUT_WRONG = FASTER.replace("1.0f + std::fabs(v));", "2.0f + std::fabs(v));  // judge: wrong")
STALE = json.dumps({"edits": [{"kind": "replace", "line": 14, "expected": "no such line", "text": "x"}]})

SCRIPT: dict[Any, list[Any]] = {
    "generator": [written(DOES_NOT_COMPILE)],
    "diagnoser": [diagnosed(f"cause {number}") for number in range(5)],
    "repairer": [
        edited(DOES_NOT_COMPILE, "rows * 256", "    const int64_t count = 64 * 256;"),
        edited(WRONG, "2.0f + std::fabs", constant_line(1)),
        "CANNOT: five is five",
        edited(with_constant(6), "6.0f + std::fabs", constant_line(3)),
        STALE,
        edited(with_constant(3), "3.0f + std::fabs", constant_line(4)),
        edited(FASTER_BUT_WRONG, "2.0f + std::fabs", FASTER.splitlines()[line_of(FASTER, "1.0f + std::fabs") - 1]),
    ],
    "optimizer": [
        written(SLOWER, "more work"),
        written(with_constant(5), "yet another constant"),
        written(with_constant(6), "another constant"),
        written(FASTER_BUT_WRONG, "SIMD"),
        "DONE: nothing is left to try",
    ],
}


class ToolCalls(BaseCallbackHandler):
    """Keeps the names of the tools that a run called."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def on_tool_start(self, serialized: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        self.names.append(serialized["name"])


class Story:
    """One whole run, with everything that came out of it."""

    def __init__(self, run_dir: Path) -> None:
        self.conversation = run_dir / "conversation.jsonl"
        self.model = ScriptedModel(answers=SCRIPT)
        self.tools = ToolCalls()
        settings = Settings(max_repairs=2, max_depth=9, profile_from_depth=Gates(elementwise=2), run_dir=str(run_dir))
        graph = build_graph(lambda spec, options: self.model, Scripted()).compile()
        final = graph.invoke(INPUT, {"callbacks": [self.tools]}, context=settings)
        self.state = RunState.model_validate(final)

    @property
    def result(self) -> Result:
        assert self.state.result is not None
        return self.state.result

    def requests(self, role: str) -> list[Request]:
        return [request for request in self.model.requests if request.role == role]


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    return Story(tmp_path_factory.mktemp("run"))


def test_the_agents_take_turns_as_the_design_says(story: Story) -> None:
    told = [(step.agent, step.depth, step.status) for step in story.state.history]
    repair: list[Any] = [("diagnoser", 0, None), ("repairer", 0, None)]
    deeper: list[Any] = [("diagnoser", 1, None), ("repairer", 1, None)]
    assert told == [
        ("generator", 0, None),
        ("tester", 0, "build_failed"),
        # What a compiler says for the first time is diagnosis enough.
        ("repairer", 0, None),
        ("tester", 0, "wrong"),
        *repair,
        ("tester", 0, "passed"),
        ("optimizer", 0, None),
        ("tester", 1, "passed"),
        # The repairer declines; the next failure may be repaired again, and the one after it, too.
        ("optimizer", 1, None),
        ("tester", 1, "wrong"),
        *deeper,
        ("optimizer", 1, None),
        ("tester", 1, "wrong"),
        *deeper,
        ("tester", 1, "wrong"),
        *deeper,
        ("tester", 1, "wrong"),
        ("optimizer", 1, None),
        ("tester", 1, "wrong"),
        *deeper,
        ("tester", 2, "passed"),
        ("profiler", 2, None),
        ("optimizer", 2, None),
        ("sanitizer", 2, "passed"),
    ]


def test_only_a_gain_replaces_the_best(story: Story) -> None:
    passes = [step for step in story.state.history if step.agent == "tester" and step.status == "passed"]
    assert [step.improved for step in passes] == [True, False, True]
    speedups = [step.candidate_speedup or 0.0 for step in passes]
    assert speedups[1] < speedups[0] < speedups[2]
    assert [step.speedup for step in passes] == [speedups[0], speedups[0], speedups[2]]
    assert story.result.best is not None
    assert story.result.best.candidate.source == FASTER
    assert story.result.best.verdict.candidate == story.result.best.candidate.digest


def test_edits_made_the_kernel_right(story: Story) -> None:
    second, third = (request.candidate for request in story.requests("diagnoser")[:2])
    assert second is not None
    assert second.source == WRONG
    assert second.author == "repairer:playbook"
    first_pass = story.requests("optimizer")[0].candidate
    assert first_pass is not None
    assert first_pass.source == RIGHT
    assert third is not None
    assert third.parent == first_pass.digest


def test_each_agent_is_shown_what_it_needs(story: Story) -> None:
    undiagnosed, *repairs = story.requests("repairer")
    assert undiagnosed.verdict is not None and undiagnosed.diagnosis is None
    assert undiagnosed.verdict.status == "build_failed"
    assert "rows" in undiagnosed.verdict.message
    first = story.requests("diagnoser")[0]
    assert first.verdict is not None
    assert first.verdict.correctness is not None
    assert [request.diagnosis.cause for request in repairs if request.diagnosis] == [
        f"cause {number}" for number in (0, 1, 2, 3, 3, 4)
    ]


def test_the_optimizer_falls_back_to_the_best_and_is_told_what_failed(story: Story) -> None:
    _, after_slower, _, after_failure, _ = story.requests("optimizer")
    for request in (after_slower, after_failure):
        assert request.candidate is not None
        assert request.candidate.source == RIGHT
    question = messages_for(after_failure)[1].text
    assert "- more work: not kept, " in question
    assert "- another constant: failed (wrong)" in question
    assert "- yet another constant: failed (wrong)" in question
    assert "another constant" not in messages_for(after_slower)[1].text


def test_no_profile_is_shown_before_the_gate(story: Story) -> None:
    assert [request.profile is not None for request in story.requests("optimizer")] == [False] * 4 + [True]
    assert story.state.best is not None
    assert story.state.best.profile == story.requests("optimizer")[-1].profile


def test_the_judge_is_reached_through_tools(story: Story) -> None:
    """Once a kernel: the judge screens and builds by itself."""
    assert story.tools.names == 10 * ["run_kernel"] + ["profile_kernel", "sanitize_kernel"]


def test_the_result_sums_the_run_up(story: Story) -> None:
    result = story.result
    assert result.stop.name == "no_moves_left"
    assert result.stop.message == "nothing is left to try"
    assert (result.depth, result.attempts, result.usage.calls) == (2, 10, len(story.model.requests))
    assert result.seconds == pytest.approx(sum(step.seconds for step in story.state.history), rel=0.5)
    assert 0 < result.device_seconds < result.seconds


def test_the_conversation_replays_to_the_same_answers(story: Story) -> None:
    recorded = ReplayModel.load(story.conversation)
    assert [said.index for said in recorded.exchanges] == list(range(len(story.model.requests)))
    assert [said.role for said in recorded.exchanges] == [request.role for request in story.model.requests]
    generator = story.requests("generator")[0]
    assert recorded.invoke(list(messages_for(generator))).text == SCRIPT["generator"][0]
    stale, again = recorded.exchanges[12:14]
    assert stale.answer == STALE
    assert "No edit was applied" in again.prompt[-1].content


def short_run(model: ScriptedModel, **settings: Any) -> RunState:
    graph = build_graph(lambda spec, options: model, Scripted()).compile()
    return RunState.model_validate(graph.invoke(INPUT, context=Settings(**settings)))


def test_a_model_that_answers_nonsense_ends_the_run_after_the_re_asks() -> None:
    model = ScriptedModel(answers=["Nice weather."], repeat_last=True)
    state = short_run(model, max_reasks=1)
    assert model.calls() == 2
    assert state.usage.calls == 2
    assert state.result is not None
    assert state.result.best is None
    assert state.result.stop.name == "model_unusable"
    assert "generator" in state.result.stop.message
    assert "no fenced code block" in state.result.stop.message


def test_hopeless_kernels_are_begun_anew_and_then_given_up() -> None:
    broken = [written(DOES_NOT_COMPILE.replace("rows", name)) for name in ("rows", "lines", "planes")]
    scripts: dict[Any, list[Any]] = {
        "generator": broken,
        "diagnoser": [diagnosed("it cannot be saved")],
        "repairer": ["CANNOT: no line is to blame"],
    }
    model = ScriptedModel(answers=scripts, repeat_last=True)
    state = short_run(model, max_regenerations=2)
    agents = [step.agent for step in state.history]
    # Who sees no repair in the compiler's words alone is sent a diagnosis first.
    assert agents == ["generator", "tester", "repairer", "diagnoser", "repairer"] * 3
    assert (state.attempts, state.regenerations) == (3, 2)
    assert state.stop_reason is not None
    assert state.stop_reason.name == "repairs_exhausted"
    second = [request for request in model.requests if request.role == "generator"][1]
    assert "rows" in messages_for(second)[1].text


def test_a_repair_that_gives_an_optimization_up_is_sent_back() -> None:
    broken = FASTER.replace("= 64 * 256;", UNKNOWN)
    gives_up = edited(broken, "#pragma omp simd", "    // no SIMD, so that it surely compiles")
    keeps = edited(broken, "= rows * 256;", "    const int64_t count = 64 * 256;")
    scripts: dict[Any, list[Any]] = {
        "generator": [written(broken)],
        "repairer": [gives_up, keeps],
        "optimizer": ["DONE: enough"],
    }
    model = ScriptedModel(answers=scripts)
    state = short_run(model)
    [repair] = [step for step in state.history if step.agent == "repairer"]
    assert repair.usage.calls == 2
    assert state.best is not None
    assert state.best.candidate.source == FASTER
    assert model.calls() == 4


def test_async_callers_and_a_generator_that_declines() -> None:
    model = ScriptedModel(answers={"generator": ["CANNOT: it needs a sort"]})
    graph = build_graph(lambda spec, options: model, Scripted()).compile()
    state = RunState.model_validate(asyncio.run(graph.ainvoke(INPUT)))
    assert state.result is not None
    assert (state.result.stop.name, state.result.stop.message) == ("declined", "it needs a sort")
    assert state.result.attempts == 0


def test_a_run_that_broke_off_goes_on_where_it_was(tmp_path: Path) -> None:
    """The killed node runs again, what was verified is kept, and the clock counts on."""
    serde = JsonPlusSerializer(allowed_msgpack_modules=checkpoint_types())
    config: Any = {"configurable": {"thread_id": "one"}}
    answers: dict[Any, list[Any]] = {"generator": [written(RIGHT)], "optimizer": ["MOVE: x - y\n```cpp\n"]}
    broken_off = ScriptedModel(answers=answers)
    settings = Settings(run_dir=str(tmp_path))
    with closing(sqlite3.connect(tmp_path / "c.sqlite", check_same_thread=False)) as connection:
        saver = SqliteSaver(connection, serde=serde)
        graph = build_graph(lambda spec, options: broken_off, Scripted()).compile(checkpointer=saver)
        with pytest.raises(ScriptExhaustedError):
            graph.invoke(INPUT, config, context=settings, durability="sync")
    resumed = ScriptedModel(answers={"optimizer": ["Hm.", "DONE: enough"]})
    with closing(sqlite3.connect(tmp_path / "c.sqlite", check_same_thread=False)) as connection:
        saver = SqliteSaver(connection, serde=serde)
        graph = build_graph(lambda spec, options: resumed, Scripted()).compile(checkpointer=saver)
        snapshot = graph.get_state(config)
        assert snapshot.next == ("optimizer",)
        before = RunState.model_validate(snapshot.values)
        assert before.best is not None
        state = RunState.model_validate(graph.invoke(None, config, context=settings, durability="sync"))
    assert state.best is not None
    assert state.best.candidate == before.best.candidate
    assert [run.status for run in state.best.verdict.sanitizers] == ["clean"]
    assert state.history[: len(before.history)] == before.history
    assert state.seconds > before.seconds
    assert state.result is not None
    assert state.result.stop.name == "no_moves_left"
    exchanges = ReplayModel.load(tmp_path / "conversation.jsonl").exchanges
    assert [(said.index, said.role, said.answer) for said in exchanges[1:]] == [
        (1, "optimizer", "MOVE: x - y\n```cpp\n"),  # answered before it broke off, and not asked for again
        (2, "optimizer", "Hm."),
        (3, "optimizer", "DONE: enough"),
    ]


LEAN = """
import re, sys
from pathlib import Path
from graph.workflow import build_graph
from nodes.models.local import ScriptedModel
from nodes.settings import Settings
model = ScriptedModel(answers=["CANNOT: no"])
graph = build_graph(lambda spec, options: model).compile()
state = graph.invoke({"source": sys.argv[1]}, context=Settings())
assert state["result"].stop.name == "declined"
assert "torch" not in sys.modules, "the graph's process imported torch"
# Not getrusage: its peak is inherited from the process that started this one, which may hold torch.
mib = int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024
assert mib <= 250, f"the graph's process takes {mib:.0f} MiB"
"""


def test_the_graphs_process_stays_light_and_without_torch() -> None:
    done = subprocess.run([sys.executable, "-c", LEAN, SOURCE], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
