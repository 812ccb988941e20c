"""Who has the device, and for how long: the waits for it are nobody's device time."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from harness.device_turns import held_s, one_at_a_time


@pytest.fixture(autouse=True)
def own_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUTEGEN_CACHE", str(tmp_path))


def spend(seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


def test_what_a_thread_held_adds_up_whatever_became_of_it() -> None:
    began, before = time.monotonic(), held_s()
    with one_at_a_time("cpu"):
        spend(0.02)
    with pytest.raises(RuntimeError), one_at_a_time("cpu"):
        spend(0.02)
        raise RuntimeError
    spend(0.02)
    assert 0.04 <= held_s() - before <= time.monotonic() - began - 0.02


def test_a_wait_for_the_turn_is_not_counted_and_nobody_counts_for_another() -> None:
    told: dict[str, float] = {}
    has_it, wants_it = threading.Event(), threading.Event()

    def first() -> None:
        with one_at_a_time("cpu"):
            has_it.set()
            wants_it.wait()
            spend(0.1)
            told["let go at"] = time.monotonic()
        told["first"] = held_s()

    def second() -> None:
        has_it.wait()
        wants_it.set()
        with one_at_a_time("cpu"):
            pass
        told["second"] = held_s()
        told["had it until"] = time.monotonic()

    before = held_s()
    threads = [threading.Thread(target=work) for work in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told["first"] >= 0.1
    assert told["second"] <= told["had it until"] - told["let go at"]
    assert held_s() == before
