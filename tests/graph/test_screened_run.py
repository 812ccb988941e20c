"""A kernel that the screen refuses goes to the diagnoser like any other failure, without ever being compiled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from softsign_script import RIGHT, SOURCE, diagnosed, edited, written

from graph.workflow import build_graph
from nodes.models.local import ScriptedModel
from nodes.settings import Settings
from nodes.state import RunState

COUNT = "    const int64_t count = 64 * 256;"
REFUSED = RIGHT.replace(COUNT, f"{COUNT} std::system(nullptr);")


class ToolCalls(BaseCallbackHandler):
    """Keeps the names of the tools that a run called."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def on_tool_start(self, serialized: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        self.names.append(serialized["name"])


@pytest.mark.usefixtures("brief")
def test_a_refused_kernel_is_repaired_and_never_compiled(tmp_path: Path) -> None:
    answers: dict[Any, list[Any]] = {
        "generator": [written(REFUSED)],
        "diagnoser": [diagnosed("it calls system")],
        "repairer": [edited(REFUSED, "std::system", COUNT)],
        "optimizer": ["DONE: nothing is left to try"],
    }
    model, tools = ScriptedModel(answers=answers), ToolCalls()
    graph = build_graph(lambda spec, options: model).compile()
    settings = Settings(target="cpu", max_repairs=1, max_depth=1, run_dir=str(tmp_path))
    final = graph.invoke({"source": SOURCE, "name": "softsign"}, {"callbacks": [tools]}, context=settings)
    tested = [step for step in RunState.model_validate(final).history if step.agent == "tester"]
    assert [step.status for step in tested] == ["refused", "passed"]
    assert tested[0].message.startswith("screen:process: kernel:")
    assert [name for name in tools.names if name != "profile_kernel"] == [
        "run_kernel",
        "run_kernel",
        "sanitize_kernel",
    ]
    (asked,) = [request for request in model.requests if request.role == "diagnoser"]
    assert asked.verdict is not None
    assert "system: A kernel may not start" in asked.verdict.message
