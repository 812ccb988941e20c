"""Turns on a device: timing has it alone, what only watches shares it, and each thread's time on it is counted."""

from __future__ import annotations

import fcntl
import random
import re
import threading
import time
from collections.abc import Iterator
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
def beside_others(device: DeviceName) -> Iterator[None]:
    """Share the device with up to `PLACES` others that are not timed; never while somebody has it alone.

    Be short: who wants it alone waits for those inside. Nobody comes in while one waits, so that their wait ends when
    those inside have left, however many stand behind.
    """
    with ExitStack() as held:
        wait = _Wait(device)
        _take(held, wait, f"place-{random.randrange(PLACES)}", fcntl.LOCK_EX)  # before any turn is awaited
        _enter(held, wait, fcntl.LOCK_SH)
        wait.over()
        with counted():
            yield


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
    path = _lock(device, f"model-{number}")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, how | fcntl.LOCK_NB)
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


def _take(held: ExitStack, wait: _Wait, kind: str, how: int) -> None:
    """Wait for the lock of a file. Each opening of it counts by itself, so that threads exclude each other, too."""
    path = _lock(wait.device, kind)
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.open("w")
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        wait.begins()
        _await(file, how)
    except OSError:
        file.close()
        raise
    held.enter_context(file)


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
