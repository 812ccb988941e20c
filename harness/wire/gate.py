"""Where a job in a child waits until it has its device alone: it asks its parent, which lets it pass."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from harness.wire import channel

FRAME = "alone"
_gate: ContextVar[Callable[[], None] | None] = ContextVar("gate", default=None)


def have_device_alone() -> None:
    """Wait until nobody shares the device: what comes next is timed. At once where the job's parent has no gate."""
    if wait := _gate.get():
        wait()


@contextmanager
def gate(link: socket.socket, descriptor: int) -> Iterator[None]:
    """Within, `have_device_alone` asks over `link`, and waits for a byte that comes through the pipe `descriptor`."""

    def wait() -> None:
        channel.send(link, {FRAME: True})
        os.read(descriptor, 1)

    token = _gate.set(wait)
    try:
        yield
    finally:
        _gate.reset(token)
