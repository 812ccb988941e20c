"""Whoever waits for a node is told what happens in it, and that it still works where nothing does."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from langgraph.runtime import Runtime
from run_samples import run

from harness.nouns.events import DeviceAwaited, DeviceTaken, Event
from harness.wire.telling import pass_on, tell, telling
from nodes.events import Progress
from nodes.models.local import ScriptedModel
from nodes.progress import apart, listening
from nodes.settings import Settings
from nodes.state import RunState, Stop
from nodes.turn.node import ModelCache, NodeContext, Update, as_node

SHELF = ModelCache(lambda spec, options: ScriptedModel(answers=[]))
WAITS_S = 100.0


def told_by(agent: Any) -> list[Progress]:
    """What the stream of a graph with this node shows."""
    shown: list[Progress] = []
    stream = Runtime(context=Settings(), stream_writer=lambda each: shown.append(Progress.model_validate(each)))
    as_node(agent, SHELF)(run(), runtime=stream)
    return shown


AWAITED, TAKEN = DeviceAwaited(target="cpu"), DeviceTaken(target="cpu", seconds=4.0)


@pytest.mark.parametrize(
    ("events", "doing"), [((AWAITED,), "waiting for the device"), ((AWAITED, TAKEN), "running on the device")]
)
def test_a_node_that_says_nothing_is_said_to_work(events: tuple[Event, ...], doing: str) -> None:
    worked = threading.Event()

    def listen(progress: Progress) -> None:
        if progress.event.kind == "working":
            worked.set()

    def waits(state: RunState, _: NodeContext) -> Update:
        for each in events:
            tell(each)
        assert worked.wait(WAITS_S)
        return {"stop_reason": Stop(name="depth", message="far enough")}

    with listening(listen):
        told = told_by(waits)
    kinds = [each.event.kind for each in told]
    silent = 1 + len(events)
    assert kinds[: silent + 1] == ["agent_started", *(each.kind for each in events), "working"]
    assert kinds[-2:] == ["stopping", "agent_ended"]
    assert told[silent].event.words == doing, "what was being done still is"
    assert {each.agent for each in told} == {"waits"}


def test_a_graph_within_a_node_is_told_of_on_the_outer_stream_once() -> None:
    heard: list[Progress] = []

    def inner(state: RunState, _: NodeContext) -> Update:
        return {"move": "one"}

    def outer(state: RunState, _: NodeContext) -> Update:
        def alone() -> Update:
            with listening(heard.append):
                return as_node(inner, SHELF)(state, runtime=Runtime(context=Settings()))

        return {"move": apart(alone)["move"]}

    told = [(each.agent, each.event.kind) for each in told_by(outer) if each.event.kind != "working"]
    started, ended = "agent_started", "agent_ended"
    assert told == [("outer", started), ("inner", started), ("inner", ended), ("outer", ended)]
    assert [each.agent for each in heard] == ["inner", "inner"]


def test_a_node_that_fails_is_told_to_have_ended_and_nothing_is_told_afterwards() -> None:
    heard: list[Progress] = []

    def fails(state: RunState, _: NodeContext) -> Update:
        raise ValueError("it failed")

    with listening(heard.append), pytest.raises(ValueError, match="it failed"):
        told_by(fails)
    assert heard[-1].event.model_dump() == {"kind": "agent_ended", "finished": False}


def test_of_a_childs_frames_only_events_are_passed_on() -> None:
    told: list[Event] = []
    with telling(told.append):
        for frame in (
            None, 3, {"kind": "verdict"}, {"kind": "stopping", "reason": "depth", "message": ""},
            {"kind": "checking", "distribution": "wide\n\x1b[31m" + "x" * 9000, "trials": 2},
        ):  # fmt: skip
            pass_on(frame)
    [event] = told
    assert event.words.startswith("comparing, trial 3: wide \\x1b[31mxxx")
    assert len(event.words) < 400, "what a task file chose is short and one line"
