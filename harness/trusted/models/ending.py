"""Work of this process's main thread that is ended when it has had its time."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

AGAIN_S = 0.2
"""A compiler may take an exception for one of its own: it is raised once more after this time."""


class OverError(Exception):
    """Raised in work that has had its time."""


class Timer:
    """Whether it went off: compilers wrap what is raised in them."""

    over = False


@contextmanager
def ended_after(seconds: float) -> Iterator[Timer]:
    """Raises `OverError` in what runs longer; where this is not the main thread, nothing is ended."""
    timer = Timer()
    if threading.current_thread() is not threading.main_thread():
        yield timer
        return

    def over(_signal: int, _frame: FrameType | None) -> None:
        timer.over = True
        raise OverError

    earlier: Callable[..., object] | int | None = signal.signal(signal.SIGALRM, over)
    waked = signal.set_wakeup_fd(-1)  # the parent's, in a forked child
    signal.setitimer(signal.ITIMER_REAL, max(seconds, AGAIN_S), AGAIN_S)
    try:
        yield timer
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.set_wakeup_fd(waked)
        signal.signal(signal.SIGALRM, earlier if earlier is not None else signal.SIG_DFL)
