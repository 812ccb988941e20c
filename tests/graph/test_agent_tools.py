"""Agents that compile, run and profile while they think, through the real graph and judge."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage
from softsign_script import DOES_NOT_COMPILE, KERNEL, SOURCE, written

from graph.workflow import build_graph
from nodes.models.local import ScriptedModel
from nodes.settings import Settings
from nodes.state import RunState


def calling(name: str, source: str) -> AIMessage:
    return AIMessage("", tool_calls=[{"type": "tool_call", "id": "c1", "name": name, "args": {"source": source}}])


@pytest.mark.usefixtures("scripted")
def test_a_run_whose_agents_try_before_they_answer() -> None:
    heard: list[str] = []

    class Listening(ScriptedModel):
        def respond(self, messages: Any) -> AIMessage:
            heard.append(str(messages[-1].text))
            return super().respond(messages)

    model = Listening(answers={
        "generator": [calling("compile_kernel", DOES_NOT_COMPILE), written(KERNEL)],
        "optimizer": [calling("run_kernel", KERNEL), calling("profile_kernel", KERNEL), "DONE: enough"],
    })  # fmt: skip
    graph = build_graph(lambda spec, options: model).compile()
    state = RunState.model_validate(
        graph.invoke({"source": SOURCE, "name": "softsign"}, context=Settings(target="cpu"))
    )
    assert state.best is not None
    assert "does not compile" in heard[1]
    assert "The kernel is right." in heard[3]
    assert "There is no tool 'profile_kernel'" in heard[4]  # the gate is closed at depth 0
    assert state.usage.calls == 5
    assert 0 < state.usage.device_seconds < state.seconds
    assert state.result is not None
    assert state.result.device_seconds == pytest.approx(state.device_seconds + state.usage.device_seconds)
