"""Telling whoever waits what happens: an event goes to who listens in this context, or nowhere."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from pydantic import TypeAdapter, ValidationError

from harness.nouns.events import Describing, Event, JudgesEvent
from harness.wire import channel

Tell = Callable[[Event], None]
FRAME = "event"
EVERY_S = 0.5
"""Between two frames of one child: who reads them takes a core from what is being timed."""

_tell: ContextVar[Tell | None] = ContextVar("tell", default=None)
_events: TypeAdapter[JudgesEvent] = TypeAdapter(JudgesEvent)


def tell(event: Event) -> None:
    """Say that something happened."""
    if listener := _tell.get():
        listener(event)


@contextmanager
def telling(listener: Tell) -> Iterator[None]:
    """Have what happens within told to `listener`, from whichever of the block's threads."""
    token = _tell.set(listener)
    try:
        yield
    finally:
        _tell.reset(token)


@contextmanager
def overhearing(listener: Tell) -> Iterator[None]:
    """Call `listener` with what happens within, too."""
    around = _tell.get()

    def both(event: Event) -> None:
        listener(event)
        if around:
            around(event)

    with telling(both):
        yield


def over(link: socket.socket) -> Tell:
    """A listener that sends frames, the first event at once and further ones as seldom as `EVERY_S`.

    What describing a task does is always sent: it is a few frames, and the last one names what does not end.
    """
    next_s = [0.0]

    def send(event: Event) -> None:
        if (now := time.monotonic()) >= next_s[0] or isinstance(event, Describing):
            next_s[0] = now + EVERY_S
            channel.send(link, {FRAME: event.model_dump(mode="json")})

    return send


def pass_on(told: Any) -> None:
    """Tell what a child's frame says; nothing where it is no event: a task file may have written it."""
    if told is None:
        return
    try:
        event = _events.validate_python(told)
    except ValidationError:
        return
    tell(event)
