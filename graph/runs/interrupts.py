"""Ctrl-C and SIGTERM, and a stop that was lost on its way."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_asked = threading.Event()
_wakers: dict[object, Callable[[], object]] = {}


@contextmanager
def interruptible() -> Iterator[None]:
    """Let both signals raise `KeyboardInterrupt` meanwhile: a service manager's stop must lose nothing either.

    Both do so wherever the command was started: a shell has what it puts into the background ignore SIGINT, and nobody
    could stop it so.
    """
    _asked.clear()
    before = {kind: signal.signal(kind, _interrupt) for kind in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _asked.clear()


def raise_if_stopped() -> None:
    """Raise `KeyboardInterrupt` again: one that comes while a finalizer or a library's callback runs is lost there."""
    if _asked.is_set():
        raise KeyboardInterrupt


@contextmanager
def wakes(wake: Callable[[], object]) -> Iterator[None]:
    """Have `wake` called when a stop is asked for meanwhile, or was before.

    `KeyboardInterrupt` is raised in the main thread alone, which then waits for those that run beside it.
    """
    key = object()
    _wakers[key] = wake
    try:
        if _asked.is_set():
            wake()
        yield
    finally:
        del _wakers[key]


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    _asked.set()
    # In a thread: what they lock may be held by the very call that this signal came into.
    threading.Thread(target=_wake_all, name="interrupt", daemon=True).start()
    raise KeyboardInterrupt


def _wake_all() -> None:
    for wake in [*_wakers.values()]:
        wake()
