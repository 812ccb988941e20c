"""Length-prefixed JSON frames over a socket. Standard library only: the candidate's runner uses it too."""

from __future__ import annotations

import json
import math
import select
import socket
import struct
import time
from typing import Any

MAX_FRAME = 64 << 20
_HEADER = struct.Struct("<I")


class ChannelClosedError(ConnectionError):
    """The other side ended; or see `NotAFrameError`."""


class NotAFrameError(ChannelClosedError):
    """The other side sent something that is no frame."""


def frame(message: dict[str, Any]) -> bytes:
    """A message's bytes."""
    body = json.dumps(message).encode()
    return _HEADER.pack(len(body)) + body


def send(channel: socket.socket, message: dict[str, Any]) -> None:
    """Send one frame; blocks until it is written."""
    channel.sendall(frame(message))


def receive(channel: socket.socket, until: float = math.inf) -> dict[str, Any]:
    """The next frame. Raises `ChannelClosedError`, and `TimeoutError` where the socket has a timeout.

    With `until`, a time of `time.monotonic`, the whole frame must be there by then, in however small parts it comes.
    """
    (length,) = _HEADER.unpack(_exactly(channel, _HEADER.size, until))
    if length > MAX_FRAME:
        raise NotAFrameError(f"a frame of {length} bytes is over the limit of {MAX_FRAME}")
    try:
        message = json.loads(_exactly(channel, length, until, within=True))
    except (ValueError, RecursionError) as error:
        raise NotAFrameError("a frame holds no JSON") from error
    if not isinstance(message, dict):
        raise NotAFrameError("a frame holds something else than an object")
    return message


def await_frame(channel: socket.socket, limit_s: float) -> None:
    """Wait, without sleeping, until a frame arrives or the other side ends; for at most `limit_s` of processor time.

    A thread that sleeps lets its core sleep, and both wake late: by several tenths of a millisecond.
    """
    poller = select.poll()
    poller.register(channel, select.POLLIN)
    until = time.thread_time() + limit_s
    while not poller.poll(0) and time.thread_time() < until:
        pass


def _exactly(channel: socket.socket, count: int, until: float, *, within: bool = False) -> bytes:
    """So many bytes, the first or, `within` a frame, the rest of it."""
    parts = bytearray()
    while len(parts) < count:
        if time.monotonic() > until:
            raise TimeoutError("the frame is not complete yet")
        part = channel.recv(min(count - len(parts), 1 << 20))
        if not part:
            if parts or within:
                raise NotAFrameError("the channel was closed within a frame")
            raise ChannelClosedError("the other side closed the channel")
        parts += part
    return bytes(parts)
