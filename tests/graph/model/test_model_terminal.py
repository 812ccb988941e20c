"""What a model's user sees while it is worked on."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console
from test_model_flow import SETTINGS, ScriptedBench, open_judge

from graph.model.run import create_model, drive_model, reopen_model
from graph.model.state import ModelInput
from graph.model.terminal import ModelTerminal
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
        assert ended.endswith("x by itself")
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
