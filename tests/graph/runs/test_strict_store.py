"""Runs under LANGGRAPH_STRICT_MSGPACK, which is read once a process: a question waits in one, and is answered."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import BaseModel

from graph.runs.store import PlainSerializer
from nodes.assessment import Diagnosis
from nodes.request import Shown
from nodes.usage import Bill

ROOT = Path(__file__).resolve().parents[3]
TOLD_TWICE = """
import sys
from pathlib import Path
from graph.runs.store import open_saver
from graph.workflow import build_graph
from langgraph.checkpoint.serde._msgpack import STRICT_MSGPACK_ENABLED
from langgraph.types import Command
from nodes.models.manual import ManualModel
from nodes.settings import Settings
from scripted_judge import Scripted
from softsign_script import RIGHT, SOURCE, written

assert STRICT_MSGPACK_ENABLED
on = {"configurable": {"thread_id": "one"}}
for given in ({"source": SOURCE}, Command(resume=written(RIGHT)), Command(resume="accept")):
    with open_saver(Path(sys.argv[1])) as saver:
        graph = build_graph(lambda spec, options: ManualModel(), Scripted()).compile(checkpointer=saver)
        settings = Settings(max_depth=0, target="cpu", sanitize=False, approve_best=True)
        ended = graph.invoke(given, on, context=settings)
        print([type(each).__name__ for each in graph.get_state(on).values.get("history", ())])
assert ended["result"].best.candidate.source == RIGHT
"""


def test_a_run_waits_and_goes_on_with_its_own_types(tmp_path: Path) -> None:
    environment = {
        **os.environ, "LANGGRAPH_STRICT_MSGPACK": "true", "PYTHONPATH": f"{ROOT}:{ROOT / 'tests/support'}"
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", TOLD_TWICE, str(tmp_path / "kept.sqlite")],
        env=environment, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines() == ["[]", "['Step']", "['Step', 'Step']"]
    assert "Blocked" not in done.stderr and "unregistered" not in done.stderr


def test_the_list_of_types_is_whole() -> None:
    serializer = PlainSerializer()
    assert serializer.with_msgpack_allowlist([("os", "system")]) is serializer


@pytest.mark.parametrize(
    ("noun", "module"),
    [
        (Diagnosis(cause="a", evidence="b", fix="c", intent="d", proof="e"), "nodes.diagnosis"),
        (Shown(source="a", about="b"), "nodes.turn.request"),
        (Bill(dollars=0.5), "nodes.models.usage"),
    ],
)
def test_checkpoints_of_earlier_versions_name_the_modules_that_nouns_were_in(
    noun: BaseModel, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as before:
        before.setattr(type(noun), "__module__", module)
        written = PlainSerializer().dumps_typed({"field": noun})
    assert module.encode() in written[1]
    assert PlainSerializer().loads_typed(written) == {"field": noun}
