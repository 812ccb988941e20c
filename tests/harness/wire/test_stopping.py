"""What blocks is woken when its work is given up: a process, a wait for the device, a pause, and their threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextvars import copy_context
from pathlib import Path
from typing import Any

import pytest

from harness.isolation.policy import Access, Limits
from harness.isolation.process import IsolatedProcess
from harness.judging.device_lock import beside_others, one_at_a_time
from harness.nouns.device import DeviceName
from harness.nouns.events import Event
from harness.wire.stopping import Stop, StoppedError, TimeIsOverError, limited, pause, present, stoppable, woken_by
from harness.wire.telling import telling

LONG_S = 250.0
"""What nobody wakes lasts so long, and is failed by the test's own limit."""


def stopped(work: Callable[[], Any], *, when: Callable[[], bool] | None = None) -> BaseException | None:
    """What the work raises that is given up once it blocks, or once `when` says so."""
    stop, raised = Stop(), list[BaseException]()

    def run() -> None:
        try:
            with stoppable(stop):
                work()
        except BaseException as error:  # noqa: BLE001 - it is what the test looks at
            raised.append(error)

    thread = threading.Thread(target=copy_context().run, args=(run,))
    thread.start()
    while not (when() if when else stop._wakers) and thread.is_alive():
        thread.join(0.01)
    stop.ask()
    thread.join()
    return raised[0] if raised else None


def test_a_process_is_killed(tmp_path: Path) -> None:
    held: list[IsolatedProcess] = []

    def work() -> None:
        limits = Limits(wall_s=LONG_S, memory_bytes=1 << 30)
        access = Access(write=(str(tmp_path),))
        command = ["/bin/sleep", str(LONG_S)]
        with IsolatedProcess(
            command, cwd=tmp_path, access=access, limits=limits, environment={}, tier="none"
        ) as process:
            held.append(process)
            process.wait(LONG_S)

    assert isinstance(stopped(work), StoppedError)
    assert not held[0].running


@pytest.mark.parametrize("turn", [one_at_a_time, beside_others])
def test_a_wait_for_the_device_ends_and_leaves_it_free(turn: Any, monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setenv("CUTEGEN_CACHE", str(tmp_path))
    device, told = DeviceName(target="cpu", ordinal=0, uuid="one"), list[Event]()

    def work() -> None:
        with turn(device):
            raise AssertionError("somebody else has it")

    with one_at_a_time(device), telling(told.append):
        assert isinstance(stopped(work), StoppedError)
    with one_at_a_time(device):
        pass
    assert [event.kind for event in told] == ["device_awaited"]


def test_who_has_waited_is_told_when_the_turn_comes(monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setenv("CUTEGEN_CACHE", str(tmp_path))
    device, told = DeviceName(target="cpu", ordinal=0, uuid="one"), list[Event]()
    waits = threading.Event()

    def listen(event: Event) -> None:
        told.append(event)
        waits.set()

    def work() -> None:
        with telling(listen), one_at_a_time(device):
            pass

    second = threading.Thread(target=work)
    with one_at_a_time(device):
        second.start()
        assert waits.wait(LONG_S)
    second.join()
    assert [event.kind for event in told] == ["device_awaited", "device_taken"]


def test_nothing_begins_once_it_is_given_up_and_a_failure_by_waking_is_none() -> None:
    stop = Stop()
    with stoppable(stop):
        with woken_by(lambda: None):
            pass
        with pytest.raises(ValueError, match="its own"), woken_by(lambda: None):
            raise ValueError("its own")
        with pytest.raises(StoppedError), woken_by(lambda: None):
            stop.ask()
            raise ValueError("the socket was shut")
        began = time.monotonic()
        with pytest.raises(StoppedError):
            pause(LONG_S)
        assert time.monotonic() - began < LONG_S
        assert present() is stop
    pause(0.0)


def test_work_that_has_its_time_is_ended_by_another_error_than_work_given_up() -> None:
    began = time.monotonic()
    with pytest.raises(TimeIsOverError), limited(0.2):
        pause(LONG_S)
    assert time.monotonic() - began < LONG_S / 2
    with limited(LONG_S):
        pause(0.0)
    with pytest.raises(TimeIsOverError), limited(LONG_S), limited(0.1):
        pause(LONG_S)

    def work() -> None:
        with limited(LONG_S):
            pause(LONG_S)

    assert isinstance(stopped(work), StoppedError)


def test_what_fails_by_itself_within_its_time_fails_so() -> None:
    with pytest.raises(ValueError, match="its own"), limited(LONG_S):
        raise ValueError("its own")
