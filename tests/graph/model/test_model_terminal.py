"""What a model's user sees while it is worked on."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console
from test_model_flow import SETTINGS, ScriptedBench, open_judge

from graph.api.calls import accelerate
from graph.model.run import create_model, drive_model, reopen_model
from graph.model.state import ModelInput
from graph.model.terminal import ModelTerminal
from graph.runs.progress import Quiet
from harness.nouns.errors import UserError
from harness.nouns.events import Checking, WholeModel
from nodes.events import AgentStarted, Progress, RegionBegun, RegionEnded, RunEvent


def test_without_a_terminal_there_is_a_line_for_each_step_verdict_and_region(tmp_path: Path) -> None:
    create_model(tmp_path / "toy", ModelInput(source="class Model: ...\n", name="toy"), SETTINGS)
    text = io.StringIO()
    with ModelTerminal(Console(file=text, width=200)) as terminal:
        bench = ScriptedBench()
        found = reopen_model(tmp_path / "toy")
        drive_model(*found, terminal, open_workbench=lambda _: bench, open_judge=open_judge)
    lines = text.getvalue().splitlines()
    steps = [line.split(":")[0] for line in lines if "-" not in line.split(":")[0]]
    assert steps == ["capture", "planner", "cutter", "assembler", "acceptor"]
    regions = sorted({line.split(":")[0] for line in lines} - set(steps))
    assert len(regions) == 3
    for region in regions:
        begun, *_, ended = [line.partition(": ")[2] for line in lines if line.startswith(region)]
        assert begun.startswith("begun, with ")
        assert ended.endswith("x over eager by itself")
        assert any("passed" in line for line in lines if line.startswith(region)), "the judge's word"


def seen(*told: tuple[str, str, RunEvent]) -> str:
    """What is drawn below the lines at last."""
    text = io.StringIO()
    with ModelTerminal(Console(file=text, force_terminal=True, width=120, color_system=None)) as terminal:
        terminal.started("acceptor")
        for region, agent, event in told:
            terminal.heard(Progress(agent=agent, region=region, seconds=1.0, event=event))
    return text.getvalue()


def test_on_a_terminal_regions_side_by_side_are_seen_to_work() -> None:
    begun, trial = RegionBegun(budget_s=30.0), Checking(distribution="normal", trials=4)
    told = seen(
        ("norm-1", "region", begun), ("product-2", "region", begun), ("norm-1", "tester", AgentStarted()),
        ("norm-1", "tester", trial), ("product-2", "region", RegionEnded(improved=False, reason="no recipe")),
    )  # fmt: skip
    assert "comparing, trial 5: normal" in told
    assert "product-2: no kernel: no recipe" in told
    assert "begun" in told


def test_what_is_done_with_the_whole_model_is_seen() -> None:
    assert "torch.compile, max-autotune" in seen(("", "acceptor", WholeModel(doing="torch.compile, max-autotune")))


class Told(Quiet):
    """An observer as a caller writes one."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.kinds: set[str] = set()

    def started(self, agent: str) -> None:
        self.steps.append(agent)

    def heard(self, progress: Progress) -> None:
        self.kinds.add(progress.event.kind)


def accelerated(folder: Path, observer: Told | None) -> None:
    folder.mkdir()
    (folder / "stuck.py").write_text("import torch\n\nraise RuntimeError('no model')\n")
    with pytest.raises(UserError, match="no model"):
        accelerate(folder / "stuck.py", out=folder / "out", observer=observer, target="cpu")


def test_from_python_a_callback_is_told_and_a_terminal_or_notebook_shows_what_happens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Told()
    accelerated(tmp_path / "told", told)
    assert told.steps == ["capture"]
    assert {"agent_started", "whole_model", "agent_ended"} <= told.kinds
    accelerated(tmp_path / "piped", None)
    assert capsys.readouterr().err == "", "nobody reads it"
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes it for a terminal
    accelerated(tmp_path / "shown", None)
    assert "capture: running the model" in capsys.readouterr().err
