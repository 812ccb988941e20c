"""What is shown and logged while a run goes on."""

import io
import json
from pathlib import Path

from rich.console import Console

from graph.progress import HEAD, Terminal, line, open_log, table
from nodes.state import Step

PASSED = Step(
    depth=2, agent="tester", move="streaming stores", candidate="abc", status="passed", seconds=7.123,
    candidate_speedup=1.9, speedup=1.9, improved=True,
)  # fmt: skip
FAILED = Step(depth=3, agent="tester", move="unroll " * 20, candidate="def", status="wrong", seconds=1, speedup=1.9)
PROFILED = Step(depth=3, agent="profiler", message="memory bound, 80% of the roof", speedup=1.9)


def shown(*, terminal: bool) -> str:
    text = io.StringIO()
    display = Terminal(Console(file=text, force_terminal=terminal, width=100, color_system=None))
    for agent, step in (("tester", PASSED), ("tester", FAILED), ("profiler", PROFILED)):
        display.started(agent)
        display.stepped(step)
    display.stop()
    return text.getvalue()


def test_a_line_says_depth_agent_move_verdict_seconds_and_speedup_so_far() -> None:
    assert line(PASSED).plain.split() == ["2", "tester", "streaming", "stores", "passed", "1.90x", "7.12", "1.90x"]
    assert line(PROFILED).plain.split()[:4] == ["3", "profiler", "memory", "bound,"]
    assert line(Step(depth=0, agent="generator")).plain.endswith("-")


def test_lines_are_aligned_and_long_moves_cut() -> None:
    lines = [line(step).plain for step in (PASSED, FAILED)]
    assert lines[0].index("passed") == lines[1].index("wrong") == HEAD.index("verdict")
    assert "..." in lines[1]


def test_markup_in_a_move_is_only_text() -> None:
    step = PASSED.model_copy(update={"move": "[red]bold[/red]"})
    assert "[red]bold[/red]" in line(step).plain


def test_without_a_terminal_there_are_only_lines() -> None:
    lines = shown(terminal=False).splitlines()
    assert lines[0] == HEAD
    assert len(lines) == 4
    assert "compiling" not in shown(terminal=False)


def test_on_a_terminal_the_present_work_is_shown() -> None:
    assert "compiling and judging" in shown(terminal=True)


def test_the_table_lists_what_was_judged() -> None:
    text = io.StringIO()
    Console(file=text, width=200).print(table((PASSED, FAILED, PROFILED)))
    rows = text.getvalue().splitlines()
    assert len(rows) == 3
    assert "best" in rows[1]
    assert "best" not in rows[2]


def test_the_log_is_one_object_a_line_and_is_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    for _ in range(2):
        with open_log(path, "run-1") as log:
            log.started("tester")
            log.stepped(PASSED)
            log.ended("improved", "depth")
    entries = [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()]
    assert [entry["event"] for entry in entries] == ["started", "step", "ended"] * 2
    assert entries[1]["candidate_speedup"] == 1.9
    assert all(entry["run"] == "run-1" and entry["timestamp"] for entry in entries)
