"""What else the machine does while a kernel is timed: read from the system, told in words where it matters."""

from __future__ import annotations

import pytest

from harness.nouns.verdict import Busy, Timing
from harness.trusted.host_device import HostDevice
from harness.trusted.timing import neighbours
from harness.trusted.timing.neighbours import Reading, how_busy, observe

STAT = """cpu  100 1 20 300 4 0 5 70 9 9
cpu0 100 1 20 300 4 0 5 70 9 9
intr 1234 0 0

procs_running {running}
procs_blocked 2
"""
QUIET = Busy(stolen=0.0, others=0, threads=2, processors=2, spread=0.05)


@pytest.fixture
def stat(tmp_path, monkeypatch):
    monkeypatch.setattr(neighbours, "STAT", tmp_path / "stat")
    return tmp_path / "stat"


def test_a_reading_counts_each_tick_once(stat):
    device = HostDevice(1 << 12)
    assert observe(device) is None, "another system, or a cage that hides it"
    stat.write_text(STAT.format(running=3))
    assert observe(device) == Reading(ticks=500, stolen=70, running=3), "guests' time is in user's already"
    stat.write_text("cpu  100 1 20 300\n")
    assert observe(device) is None


def test_shares_are_of_the_rounds_alone():
    readings = [Reading(1000 + 100 * i, 500 + 10 * i, running) for i, running in enumerate([9, 3, 4, 3])]
    busy = how_busy(readings, [1.0, 1.1, 1.2, 1.3, 9.0], threads=2)
    assert (busy.stolen, busy.others, busy.threads) == (0.1, 2.5, 2)
    assert busy.spread == pytest.approx(0.2 / 1.2)
    assert how_busy(readings[:1], [1.0, 1.0], threads=2) is None
    assert how_busy(readings, [1.0], threads=2) is None
    assert how_busy([readings[0]] * 2, [1.0, 1.0], threads=2).stolen == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, ""),
        ({"others": 0.5}, ""),
        ({"others": 3, "processors": 64}, ""),
        ({"others": 1}, "1 other threads wanted its 2 processors"),
        ({"stolen": 0.02, "spread": 0.2}, ""),
        ({"stolen": 0.04}, "4% of its processors' time was taken from outside"),
        ({"stolen": 0.04, "spread": 0.5}, "outside, half of eager's own times lay 50% apart or more"),
    ],
)
def test_only_what_can_disturb_is_said(change, said):
    busy = QUIET.model_copy(update=change)
    assert said in busy.said and bool(busy.said) is bool(said)
    timing = Timing(
        candidate_ms=1, baseline_ms=2, speedup=2, speedup_interval={"low": 1.9, "high": 2.1}, rounds=20, threads=1,
        converged=True, busy=busy,
    )  # fmt: skip
    assert timing.noise == (f"Noise: {busy.said}." if said else "")
