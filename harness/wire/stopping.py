"""Work that nobody waits for any more is ended: whoever blocks says how it is woken."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count


class StoppedError(BaseException):
    """The work was given up from outside. No failure of it, so that nobody takes it for one, tries again or repairs."""


class TimeIsOverError(Exception):
    """The work had its time, and was ended."""


class Stop:
    """Whether a piece of work, with all its threads, is to end; and what has to be woken for that."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked = False
        self._wakers: dict[int, Callable[[], object]] = {}
        self._numbers = count()

    @property
    def asked(self) -> bool:
        """Whether it is to end."""
        return self._asked

    def ask(self) -> None:
        """Have it end: what blocks now is woken, what would block later does not begin."""
        with self._lock:
            self._asked = True
            wakers = [*self._wakers.values()]
        for wake in wakers:
            wake()

    def add(self, wake: Callable[[], object]) -> int:
        """Have `wake` called by `ask`; at once, where it was asked before. Returns its number, for `remove`."""
        with self._lock:
            number = next(self._numbers)
            self._wakers[number] = wake
            asked = self._asked
        if asked:
            wake()
        return number

    def remove(self, number: int) -> None:
        """Forget a waker."""
        with self._lock:
            self._wakers.pop(number, None)


_stop: ContextVar[Stop | None] = ContextVar("stop", default=None)


def present() -> Stop | None:
    """What ends this context's work; None where nothing does."""
    return _stop.get()


@contextmanager
def stoppable(stop: Stop | None) -> Iterator[None]:
    """Work that `stop` ends, in whichever of the block's threads."""
    token = _stop.set(stop)
    try:
        yield
    finally:
        _stop.reset(token)


def raise_if_stopped() -> None:
    """Raise `StoppedError` where this context's work is to end."""
    stop = _stop.get()
    if stop is not None and stop.asked:
        raise StoppedError


@contextmanager
def woken_by(wake: Callable[[], object]) -> Iterator[None]:
    """Block within: `wake`, called from another thread, has it return or fail. Raises `StoppedError` then, and before.

    `wake` raises nothing, does not block, and may come when nothing blocks any more.
    """
    stop = _stop.get()
    if stop is None:
        yield
        return
    raise_if_stopped()
    number = stop.add(wake)
    try:
        yield
    except Exception:
        raise_if_stopped()
        raise
    finally:
        stop.remove(number)
    raise_if_stopped()


def pause(seconds: float) -> None:
    """Sleep, unless this context's work is to end. Raises `StoppedError`."""
    over = threading.Event()
    with woken_by(over.set):
        over.wait(seconds)


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Work that ends after so many seconds, in whichever of the block's threads, and with the work around it.

    What blocks is woken. Raises `TimeIsOverError`, and `StoppedError` where the work around it is to end.
    """
    around, stop, over = _stop.get(), Stop(), threading.Event()

    def end() -> None:
        over.set()
        stop.ask()

    timer = threading.Timer(max(0.0, seconds), end)
    timer.daemon = True
    number = around.add(stop.ask) if around else None
    timer.start()
    try:
        with stoppable(stop):
            yield
    except StoppedError as stopped:
        if over.is_set() and not (around and around.asked):
            raise TimeIsOverError from stopped
        raise
    finally:
        timer.cancel()
        if around and number is not None:
            around.remove(number)
