"""An evolution beside its single trajectory: rows as tasks end, and who is said to have won."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from scripted_judge import judging_here
from softsign_script import SOURCE
from typer.testing import CliRunner

from bench.evolve_beside import Row, Side, main, table
from harness.nouns.verdict import HeadToHead, Interval

SIDE = Side(speedup=2.0, judged=3, device_s=1.0, ended="the end")
NONE = Side(judged=3, device_s=1.0, ended="the end")
FASTER, SLOWER, OPEN = Interval(low=1.1, high=1.2), Interval(low=0.8, high=0.9), Interval(low=0.9, high=1.1)


@pytest.mark.parametrize(
    ("trajectory", "evolution", "interval", "won_by"),
    [
        (SIDE, SIDE, FASTER, "evolution"), (SIDE, SIDE, SLOWER, "trajectory"), (SIDE, SIDE, OPEN, "neither"),
        (SIDE, SIDE, None, "neither"), (NONE, SIDE, None, "evolution"), (SIDE, NONE, None, "trajectory"),
        (None, None, None, "neither"),
    ],
)  # fmt: skip
def test_who_has_won(trajectory, evolution, interval, won_by):
    duel = interval and HeadToHead(incumbent="a", incumbent_ms=1.0, speedup=1.0, interval=interval, rounds=9)
    row = Row(id=1, name="one", trajectory=trajectory, evolution=evolution, duel=duel)
    assert row.won_by == won_by
    assert f"{won_by} 1" in table([row]) and "| one |" in table([row])


def test_tasks_are_searched_by_both_and_a_second_go_leaves_out_those_with_a_row(tmp_path: Path):
    """The second file is no task, and its row says so."""
    (tmp_path / "1_softsign.py").write_text(SOURCE)
    (tmp_path / "2_nothing.py").write_text(f"{SOURCE}\n# judge: no task\n")
    out = tmp_path / "out"
    command = [str(tmp_path), "--target", "cpu", "--seconds", "30", "--out", str(out)]
    app = typer.Typer()
    app.command()(main)
    with judging_here():
        done = CliRunner().invoke(app, command, catch_exceptions=False)
        assert done.exit_code == 0, done.output
        rows = [Row.model_validate_json(line) for line in (out / "rows.jsonl").read_text().splitlines()]
        again = CliRunner().invoke(app, command)
    first, second = sorted(rows, key=lambda row: row.id)
    assert first.trajectory and first.evolution and (first.duel or first.why == "the same kernel")
    assert first.trajectory.judged > 1 and first.evolution.judged > 1
    assert second.won_by == "neither" and second.why
    assert "1_softsign: " in done.output and "1_softsign: " not in again.output
    assert (out / "table.md").read_text() in again.output
