"""Ctrl-C and SIGTERM, and a stop that was lost on its way."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_asked = threading.Event()


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


def raise_if_stopped() -> None:
    """Raise `KeyboardInterrupt` again: one that comes while a finalizer or a library's callback runs is lost there."""
    if _asked.is_set():
        raise KeyboardInterrupt


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    _asked.set()
    raise KeyboardInterrupt
