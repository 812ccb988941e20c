"""A run that dies anywhere goes on to the very same end, and forgets nothing of what it has used up.

The real graph, checkpoints in SQLite, the real screen; every kernel is one that the screen refuses, so that nothing is
built and a run takes a fraction of a second.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from run_samples import task
from softsign_script import RIGHT, diagnosed, edited, written

from graph.runs.store import checkpoint_types
from graph.workflow import build_graph
from harness.nouns.errors import MachineError
from nodes.models.local import ScriptedModel
from nodes.models.replay import ReplayModel
from nodes.request import Request
from nodes.settings import Settings
from nodes.state import RunState, Step, Usage
from nodes.usage import Bill

COUNT = "    const int64_t count = 64 * 256;"
FIRST = RIGHT.replace(COUNT, f"{COUNT} std::system(nullptr);")
SECOND = RIGHT.replace(COUNT, f"{COUNT} std::fopen(nullptr, nullptr);")
ONCE_MORE = f"{COUNT} std::system(0);"
STILL_OPENED = f"{COUNT} std::fopen(0, 0);"
STALE = edited(RIGHT, "std::fabs", "x").replace("std::fabs", "std::sqrt")
LOOK_UP: Any = {"type": "tool_call", "id": "c0", "name": "look_up", "args": {"query": "predicates"}}

SCRIPT: list[tuple[str, Any]] = [
    ("generator", [LOOK_UP]),
    ("generator", written(FIRST)),
    ("diagnoser", "Nice weather."),
    ("diagnoser", diagnosed("it calls system")),
    ("repairer", STALE),
    ("repairer", edited(FIRST, "std::system", ONCE_MORE)),
    ("diagnoser", diagnosed("it still does")),
    ("repairer", "CANNOT: it has to"),
    ("generator", written(SECOND)),
    ("diagnoser", diagnosed("it opens a file")),
    ("repairer", edited(SECOND, "std::fopen", STILL_OPENED)),
    ("diagnoser", diagnosed("it still does so")),
    ("repairer", "CANNOT: nothing helps"),
]
SETTINGS: dict[str, Any] = {"max_repairs": 2, "max_regenerations": 1, "max_reasks": 1}
INPUT_TOKENS, OUTPUT_TOKENS, DOLLARS = 70, 30, 0.25


class Author:
    """Gives the script's answers in their order, whoever asks; before the one with the number `cut` the power fails."""

    def __init__(self, cut: int | None = None) -> None:
        self.given = 0
        self.cut = cut

    def __call__(self, request: Request) -> AIMessage:
        if self.given == self.cut:
            self.cut = None
            raise MachineError("The power failed.", "Wait.")
        role, answer = SCRIPT[self.given]
        assert request.role == role
        self.given += 1
        text, calls = (answer, []) if isinstance(answer, str) else ("", answer)
        tokens = {"input_tokens": INPUT_TOKENS, "output_tokens": OUTPUT_TOKENS, "total_tokens": 100}
        message = AIMessage(text, tool_calls=calls, usage_metadata=tokens)  # type: ignore[arg-type]
        Bill(dollars=DOLLARS).attach(message)
        return message


class Run:
    """A run in a folder of its own. `carry_on` takes it to its end, or to where it dies."""

    def __init__(self, folder: Path, author: Author, **settings: Any) -> None:
        self.folder = folder
        self.author = author
        self.settings = Settings(**{**SETTINGS, "run_dir": str(folder), **settings})
        self.began = False

    def carry_on(self, updates: int | None = None) -> RunState:
        """In a graph and with a connection of their own, like a process. It ends after so many `updates` of nodes."""
        serde = JsonPlusSerializer(allowed_msgpack_modules=checkpoint_types())
        config: Any = {"configurable": {"thread_id": "one"}}
        model = ScriptedModel(answers=[self.author], repeat_last=True)
        with closing(sqlite3.connect(self.folder / "c.sqlite", check_same_thread=False)) as connection:
            saver = SqliteSaver(connection, serde=serde)
            graph = build_graph(lambda spec, options: model).compile(checkpointer=saver)
            if not self.began:
                known = {"source": "class Model: ...", "task": task(), "target": "cpu", "tier": "none"}
                graph.update_state(config, known, as_node="intake")
                self.began = True
            stream = graph.stream(None, config, context=self.settings, stream_mode="updates", durability="sync")
            with closing(stream):  # type: ignore[type-var]
                for number, _ in enumerate(stream, start=1):
                    if number == updates:
                        break
            return RunState.model_validate(graph.get_state(config).values)


def whole(folder: Path, **settings: Any) -> RunState:
    return Run(folder, Author(), **settings).carry_on()


def lasting(state: RunState) -> dict[str, Any]:
    """A run without its clocks."""

    def untimed(usage: Usage) -> Usage:
        return usage.model_copy(update={"seconds": 0.0, "device_seconds": 0.0})

    def step(told: Step) -> Step:
        return told.model_copy(update={"seconds": 0.0, "usage": untimed(told.usage)})

    left = {name: getattr(state, name) for name in RunState.model_fields if name not in ("result", "verdict")}
    return {
        **left, "history": tuple(map(step, state.history)), "usage": untimed(state.usage), "seconds": 0.0,
        "device_seconds": 0.0, "ended": state.result is not None,
    }  # fmt: skip


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> RunState:
    return whole(tmp_path_factory.mktemp("unbroken"))


def test_the_story_is_the_one_that_is_meant(unbroken: RunState) -> None:
    repair = ["diagnoser", "repairer"]
    assert [step.agent for step in unbroken.history] == [
        "generator", "tester", *repair, "tester", *repair, "generator", "tester", *repair, "tester", *repair,
    ]  # fmt: skip
    assert {step.status for step in unbroken.history if step.agent == "tester"} == {"refused"}
    assert unbroken.result is not None
    assert unbroken.result.stop.name == "repairs_exhausted"
    assert (unbroken.usage.calls, unbroken.usage.tokens) == (len(SCRIPT), 100 * len(SCRIPT))


def same_end(run: Run, unbroken: RunState) -> None:
    assert lasting(run.carry_on()) == lasting(unbroken)
    assert run.author.given == len(SCRIPT)
    told = ReplayModel.load(run.folder / "conversation.jsonl").exchanges
    assert [(said.index, said.role) for said in told] == [(index, role) for index, (role, _) in enumerate(SCRIPT)]


@pytest.mark.parametrize("cut", range(len(SCRIPT)))
def test_a_run_that_dies_while_a_model_thinks_comes_to_the_same_end(
    cut: int, unbroken: RunState, tmp_path: Path
) -> None:
    run = Run(tmp_path, Author(cut))
    with pytest.raises(MachineError, match="power"):
        run.carry_on()
    same_end(run, unbroken)


def test_a_run_that_dies_after_every_step_comes_to_the_same_end(unbroken: RunState, tmp_path: Path) -> None:
    run, before = Run(tmp_path, Author()), -1
    while run.carry_on(updates=1).result is None:
        assert run.author.given >= before
        before = run.author.given
    same_end(run, unbroken)


USED: dict[str, tuple[str, Callable[[RunState], float], float]] = {
    "max_calls": ("calls", lambda state: state.usage.calls, 1),
    "max_tokens": ("tokens", lambda state: state.usage.tokens, INPUT_TOKENS + OUTPUT_TOKENS),
    "max_dollars": ("dollars", lambda state: state.usage.dollars, DOLLARS),
    "max_attempts": ("attempts", lambda state: state.attempts, 1),
    "max_builds": ("builds", lambda state: state.attempts + state.usage.builds, 1),
}
"""Each budget: the stop that it makes, what of it a run has used, and what one call or one test takes of it."""


@given(data=st.data())
@settings(max_examples=8)
def test_no_budget_is_overrun_by_more_than_what_was_under_way_however_often_the_run_dies(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(USED)))
    stop, used, each = USED[name]
    most = {"max_attempts": 4, "max_builds": 4}.get(name, len(SCRIPT))
    # At a multiple of what one takes, and a little beside it.
    limit = each * data.draw(st.integers(1, most)) + data.draw(st.sampled_from([0, 0, each / 2] if each > 1 else [0]))
    deaths = data.draw(st.lists(st.integers(1, 6), max_size=4))
    with TemporaryDirectory() as folder:
        run = Run(Path(folder), Author(), **{name: limit})
        for updates in deaths:
            run.carry_on(updates)
        state = run.carry_on()
    assert state.result is not None
    if state.result.stop.name == "repairs_exhausted":
        assert used(state) <= limit
    else:
        assert state.result.stop.name == stop
        assert limit <= used(state) < limit + each
    assert state.usage.calls == run.author.given
    assert state.result.usage == state.usage
    assert sum((step.usage for step in state.history), Usage()) == state.usage


@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_edges_know_the_runs_own_settings(asynchronous: bool) -> None:
    """With no repair allowed a failure leads to a new start; by default it would be diagnosed."""
    answers = iter([written(FIRST), written(SECOND), "CANNOT: enough"])
    model = ScriptedModel(answers=[lambda request: next(answers)], repeat_last=True)
    graph = build_graph(lambda spec, options: model).compile(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "one"}}
    known = {"source": "class Model: ...", "task": task(), "target": "cpu", "tier": "none"}
    context = Settings(max_repairs=0, max_regenerations=5)
    graph.update_state(config, known, as_node="intake")
    if asynchronous:
        asyncio.run(graph.ainvoke(None, config, context=context))
    else:
        graph.invoke(None, config, context=context)
    history = graph.get_state(config).values["history"]
    assert [step.agent for step in history] == ["generator", "tester", "generator", "tester", "generator"]
