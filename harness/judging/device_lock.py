"""Turns on a device: timing has it alone, trials and tools share it, and each thread's time on it is counted."""

from __future__ import annotations

import fcntl
import random
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

from harness.machine.system import cache_dir
from harness.nouns.device import DeviceName
from harness.nouns.events import DeviceAwaited, DeviceTaken
from harness.wire.stopping import woken_by
from harness.wire.telling import tell

PLACES = 4
"""Evaluations that may share a device: each starts several processes, and none should keep the others from ending."""

MOST_MODELS = 16
"""Whole models that are counted beside one device."""


class _Held(threading.local):
    seconds = 0.0


_held = _Held()


@contextmanager
def one_at_a_time(device: DeviceName) -> Iterator[None]:
    """Have the device alone, for two timings at once would disturb each other, and so would whatever else runs there.

    Threads of this process take turns, and so do processes, by the device's UUID.
    """
    with ExitStack() as held:
        wait = _Wait(device)
        _enter(held, wait, fcntl.LOCK_EX)
        wait.over()
        with counted():
            yield


@contextmanager
def on_device(device: DeviceName, *, shared: bool) -> Iterator[Callable[[], None]]:
    """Have the device for what ends in a timing: alone throughout, or `shared` until what this yields is called."""
    if shared:
        with beside_then_alone(device) as alone:
            yield alone
    else:
        with one_at_a_time(device):
            yield lambda: None


@contextmanager
def beside_others(device: DeviceName) -> Iterator[None]:
    """Share the device with up to `PLACES` others that are not timed; never while somebody has it alone.

    Be short: who wants it alone waits for those inside. Nobody comes in while one waits, so that their wait ends when
    those inside have left, however many stand behind.
    """
    with beside_then_alone(device):
        yield


@contextmanager
def beside_then_alone(device: DeviceName) -> Iterator[Callable[[], None]]:
    """Share the device as `beside_others` does, and have it alone once what this yields has been called.

    The call leaves the shared turn before it waits, since two that kept theirs would wait for each other. The place is
    kept: whoever waits holds memory of the device.
    """
    with ExitStack() as place, ExitStack() as turn:
        wait = _Wait(device)
        _take_place(place, wait)  # before any turn is awaited
        _enter(turn, wait, fcntl.LOCK_SH)
        wait.over()

        def alone() -> None:
            began = time.monotonic()
            turn.close()
            again = _Wait(device)
            _enter(turn, again, fcntl.LOCK_EX)
            again.over()
            _held.seconds -= time.monotonic() - began

        with counted():
            yield alone


def held_s() -> float:
    """Seconds for which this thread has had a device, alone or not. The waits for its turns, and builds, are none."""
    return _held.seconds


def add_held(seconds: float) -> None:
    """Count time that another process had a device for what this thread waited for."""
    _held.seconds += seconds


@contextmanager
def among_models(device: DeviceName) -> Iterator[None]:
    """Be counted, in whichever process, as a whole model that is worked on beside this device."""
    with ExitStack() as held:
        for number in range(MOST_MODELS):
            with suppress(BlockingIOError):
                held.enter_context(_seat(device, number, fcntl.LOCK_EX))
                break
        yield


def models_beside(device: DeviceName) -> int:
    """Whole models that are worked on beside this device now, its caller's own included."""
    free = 0
    for number in range(MOST_MODELS):
        with suppress(BlockingIOError), _seat(device, number, fcntl.LOCK_SH):
            free += 1
    return MOST_MODELS - free


@contextmanager
def _seat(device: DeviceName, number: int, how: int) -> Iterator[None]:
    """Raises `BlockingIOError` where another one has it."""
    with ExitStack() as held:
        _take_now(held, device, f"model-{number}", how)
        yield


class _Wait:
    """A wait for a device, told of where there is one."""

    def __init__(self, device: DeviceName) -> None:
        self.device = device
        self._began: float | None = None

    def begins(self) -> None:
        """Another one has it."""
        if self._began is None:
            self._began = time.monotonic()
            tell(DeviceAwaited(target=self.device.target))

    def over(self) -> None:
        """It is ours."""
        if self._began is not None:
            tell(DeviceTaken(target=self.device.target, seconds=time.monotonic() - self._began))


def _enter(held: ExitStack, wait: _Wait, how: int) -> None:
    """Take the device. Only who stands first in the queue may wait for it, and the next one stands first after that."""
    with ExitStack() as waiting:
        _take(waiting, wait, "next", fcntl.LOCK_EX)
        _take(held, wait, "timing", how)


def _take_place(held: ExitStack, wait: _Wait) -> None:
    """Take a free place; where there is none, wait for any of them."""
    places = [f"place-{number}" for number in random.sample(range(PLACES), PLACES)]
    for place in places:
        with suppress(BlockingIOError):
            _take_now(held, wait.device, place, fcntl.LOCK_EX)
            return
    _take(held, wait, places[0], fcntl.LOCK_EX)


def _take(held: ExitStack, wait: _Wait, kind: str, how: int) -> None:
    """Wait for the lock of a file. Each opening of it counts by itself, so that threads exclude each other, too."""
    try:
        _take_now(held, wait.device, kind, how)
    except BlockingIOError:
        wait.begins()
        file = _lock(wait.device, kind).open("w")
        _await(file, how)
        held.enter_context(file)


def _take_now(held: ExitStack, device: DeviceName, kind: str, how: int) -> None:
    """Take the lock of a file. Raises `BlockingIOError` where another one has it."""
    path = _lock(device, kind)
    path.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as opened:
        fcntl.flock(opened.enter_context(path.open("w")), how | fcntl.LOCK_NB)
        held.enter_context(opened.pop_all())


def _await(file: IO[str], how: int) -> None:
    """Wait for a lock in a thread of its own: nothing wakes one that waits in the kernel.

    Who gives up leaves it its file, which it closes, and the lock with it, as soon as it has it.
    """
    turn = Future[None]()

    def lock() -> None:
        failed: OSError | None = None
        try:
            fcntl.flock(file, how)
        except OSError as error:
            failed = error
        if not turn.set_running_or_notify_cancel():
            file.close()
        elif failed:
            turn.set_exception(failed)
        else:
            turn.set_result(None)

    threading.Thread(target=lock, name="device", daemon=True).start()
    try:
        with woken_by(turn.cancel):
            turn.result()
    except BaseException:
        if not turn.cancel():  # it has come all the same
            file.close()
        raise


@contextmanager
def counted() -> Iterator[None]:
    """Count what is done within as this thread's time on a device."""
    began = time.monotonic()
    try:
        yield
    finally:
        _held.seconds += time.monotonic() - began


def _lock(device: DeviceName, kind: str) -> Path:
    name = "-".join([kind, device.target, *re.findall(r"\w+", device.uuid)])
    return cache_dir() / f"{name}.lock"
