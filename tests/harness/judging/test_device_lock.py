"""Who has the device, and for how long: the waits for it are nobody's device time."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.judging.device_lock import (
    among_models,
    beside_others,
    beside_then_alone,
    held_s,
    models_beside,
    one_at_a_time,
)
from harness.nouns.device import DeviceName

CPU = DeviceName(target="cpu")


@pytest.fixture(autouse=True)
def own_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUTEGEN_CACHE", str(tmp_path))


def spend(seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


def test_what_a_thread_held_adds_up_whatever_became_of_it() -> None:
    began, before = time.monotonic(), held_s()
    with one_at_a_time(CPU):
        spend(0.02)
    with pytest.raises(RuntimeError), one_at_a_time(CPU):
        spend(0.02)
        raise RuntimeError
    spend(0.02)
    assert 0.04 <= held_s() - before <= time.monotonic() - began - 0.02


def test_a_wait_for_the_turn_is_not_counted_and_nobody_counts_for_another() -> None:
    told: dict[str, float] = {}
    has_it, wants_it = threading.Event(), threading.Event()

    def first() -> None:
        with one_at_a_time(CPU):
            has_it.set()
            wants_it.wait()
            spend(0.1)
            told["let go at"] = time.monotonic()
        told["first"] = held_s()

    def second() -> None:
        has_it.wait()
        wants_it.set()
        with one_at_a_time(CPU):
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


def taken(path: Path) -> bool:
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def begun(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_those_that_only_watch_share_a_device_and_whoever_times_has_it_alone_and_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The timing waits for the two inside, and goes before the one that comes after it."""
    monkeypatch.setattr("harness.judging.device_lock.random.sample", lambda places, _: [*places])
    order: list[str] = []
    together = threading.Barrier(3)
    leave = threading.Event()

    def share() -> None:
        with beside_others(CPU):
            together.wait(20)
            leave.wait(20)
            order.append("left")

    def alone() -> None:
        with one_at_a_time(CPU):
            order.append("timed")

    def late() -> None:
        with beside_others(CPU):
            order.append("late")

    threads = [begun(share), begun(share)]
    together.wait(20)
    threads.append(begun(alone))
    until(lambda: taken(tmp_path / "next-cpu.lock"))
    threads.append(begun(late))
    until(lambda: taken(tmp_path / "place-2-cpu.lock"))
    leave.set()
    for thread in threads:
        thread.join(20)
    assert order == ["left", "left", "timed", "late"]
    assert not taken(tmp_path / "timing-cpu.lock")


def test_a_device_has_so_many_places_and_what_was_shared_counts_as_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.judging.device_lock.random.sample", lambda places, _: [*places])
    before = held_s()
    with beside_others(CPU):
        assert taken(tmp_path / "place-0-cpu.lock")
        spend(0.02)
    assert 0.02 <= held_s() - before < 20


def test_those_that_shared_a_device_have_it_alone_one_after_the_other(tmp_path: Path) -> None:
    """Neither waits for the other to leave, and no wait counts as held."""
    together = threading.Barrier(2)
    inside: list[int] = []
    most: list[int] = []
    held: list[float] = []

    def judged() -> None:
        with beside_then_alone(CPU) as alone:
            together.wait(20)
            alone()
            inside.append(1)
            spend(0.2)
            most.append(len(inside))
            inside.pop()
            assert taken(tmp_path / "timing-cpu.lock")
        held.append(held_s())

    threads = [begun(judged), begun(judged)]
    for thread in threads:
        thread.join(20)
    assert most == [1, 1]
    assert sum(held) < 0.55, "the second one waited for 0.2 s and did not have it then"
    assert not taken(tmp_path / "timing-cpu.lock")


def test_models_beside_a_device_are_counted_across_processes() -> None:
    one, other = (DeviceName(target="cuda", ordinal=k, uuid=f"GPU-{k}") for k in range(2))
    assert models_beside(one) == 0
    with among_models(one):
        with among_models(one), among_models(other):
            assert models_beside(one) == 2
        code = (
            "from harness.judging.device_lock import models_beside; from harness.nouns.device import DeviceName\n"
            "print(models_beside(DeviceName(target='cuda', ordinal=0, uuid='GPU-0')))"
        )
        told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert told.stdout.split() == ["1"]
    assert models_beside(one) == 0
