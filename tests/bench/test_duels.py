"""Duels between equal kernels: they are fought and counted, and their neighbours end with them."""

from __future__ import annotations

import os
from itertools import accumulate
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from bench.duels import main, opponents, prepared, said, spinning, wrong
from harness.nouns.caller import CALLERS
from harness.nouns.verdict import HeadToHead, Interval
from harness.processes.trusted_child import usable_threads
from harness.trusted.timing.bursts import kernel_burst
from harness.trusted.timing.clock import DUEL_ROUNDS


def met(low: float, high: float) -> HeadToHead:
    return HeadToHead(incumbent="a", incumbent_ms=1.0, speedup=1.0, interval=Interval(low=low, high=high), rounds=16)


def test_an_interval_without_1_on_either_side_is_wrong():
    fought = [met(0.9, 1.1), met(1.01, 1.2), met(0.8, 0.99), met(1.0, 1.1)]
    assert wrong(fought) == 2
    assert said(fought).startswith("2 exclude 1 (50.0 %), of 1 of 1 pairs of processes")
    assert "(22.2 %), of 1 of 2 pairs" in said([met(0.9, 1.1)] * 5 + fought)


def test_neighbours_share_the_cores_until_the_end():
    with spinning(2, 1.0, 0.0) as pids:
        cores = [os.sched_getaffinity(pid) for pid in pids]
        assert all(len(each) == 1 for each in cores)
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.slow
def test_a_duel_is_fought_by_the_judge_and_kept(tmp_path: Path):
    app = typer.Typer()
    app.command()(main)
    out = tmp_path / "duels.jsonl"
    arguments = ["--duels", "1", "--neighbours", "0", "--elements", "4096", "--out", str(out)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code in (0, 1), done.output  # one duel may go wrong
    kept = HeadToHead.model_validate_json(out.read_text())
    assert kept.rounds >= 8
    assert "python -m bench.duels --duels 1 --gain 1 --neighbours 0" in done.output
    assert done.exit_code == wrong([kept])
    again = CliRunner().invoke(app, arguments)
    assert again.exit_code == done.exit_code
    assert "0 fought now" in again.output, "nothing is fought again"
    assert out.read_text().count("\n") == 1


def test_the_system_tells_what_a_caged_kernel_spends_and_on_which_threads():
    """The judge asks the system: computing by all threads, by those beside the first, and waits for a processor."""
    judge, task, pair = prepared(1 << 15, 1.0)
    with opponents(judge, task, pair) as (bench, incumbent, pace, _outputs):
        assert pace.calls > 1, pace

        def spent(threads: int | None = None):
            for link in (bench.link, incumbent.kernel.link):
                if threads is not None:
                    link.have_threads(threads)
            kernel_burst(bench, incumbent.kernel, pace, 0)
            found = incumbent.kernel.link.spent
            assert found is not None and found.calls == pace.calls
            return found

        together = spent()
        if usable_threads() > 1:
            assert together.beside_s > 0.1 * together.cpu_s
        with spinning(usable_threads(), 1.0, 0.0):
            waited = accumulate(spent().waited_s for _ in range(100))  # a burst of a millisecond may meet nobody
            assert any(seconds > together.cpu_s / 10 for seconds in waited)
        for _ in range(3):
            alone = spent(1)
            assert alone.beside_s < 0.1 * alone.cpu_s, "the team's threads sleep"
        assert 0 < incumbent.kernel.link.message_s < alone.cpu_s
        with bench.link.running():
            for caller in CALLERS:
                bench.link.call([0], 20.0, caller=caller)  # a late trial amid such rounds is no change of the process
        link, every = incumbent.kernel.link, os.sched_getaffinity(0)
        link.run_alone_on(max(every))
        assert os.sched_getaffinity(link._alone) == {max(every)}
        kernel_burst(bench, incumbent.kernel, pace, 0)  # which is no change of the process
        if usable_threads() > 1:
            again = spent(0)
            assert again.beside_s > 0.1 * again.cpu_s, "teams are as they began"
            assert len(os.sched_getaffinity(link._alone)) == 1 < len(every), "and on a processor each"


@pytest.mark.alone
def test_a_gain_of_three_is_seen_beside_neighbours_that_never_rest(tmp_path: Path):
    app = typer.Typer()
    app.command()(main)
    out = tmp_path / "duels.jsonl"
    arguments = ["--duels", "1", "--neighbours", str(usable_threads()), "--gain", "3", "--out", str(out)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    kept = HeadToHead.model_validate_json(out.read_text())
    assert kept.outcome == "faster"
    assert kept.rounds >= DUEL_ROUNDS
