"""From the bytes of an answer to its JSON objects: a stream's events, or the one object of an answer in one piece."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

MAX_EVENT_BYTES = 8 << 20
"""An answer of a million characters in one event, all of them spelt as escapes."""


def events(chunks: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The objects of a stream of server-sent events, up to its mark of the end.

    Raises `ValueError` or `RecursionError` for an event that is too long, no JSON or no object.
    """
    data: list[bytes] = []
    length = 0
    for line in _lines(chunks):
        if line.startswith(b"data:"):
            data.append(line[5:].removeprefix(b" "))
            length += len(line)
            _require_short(length)
        elif not line and data:
            if data[0].startswith(b"[DONE]"):
                return
            yield read_object(b"\n".join(data))
            data, length = [], 0
    if data and not data[0].startswith(b"[DONE]"):
        yield read_object(b"\n".join(data))


def read_object(body: bytes) -> dict[str, Any]:
    """The JSON object that a body is. Raises `ValueError`, and `RecursionError` for brackets within brackets."""
    found = json.loads(body)
    if not isinstance(found, dict):
        raise ValueError("JSON that is no object")
    return found


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Lines without their ends, each joined once, however many chunks it comes in."""
    begun: list[bytes] = []
    length = 0
    for chunk in chunks:
        *ended, rest = chunk.split(b"\n")
        for end in ended:
            yield b"".join([*begun, end]).removesuffix(b"\r")
            begun, length = [], 0
        begun.append(rest)
        length += len(rest)
        _require_short(length)
    if last := b"".join(begun).removesuffix(b"\r"):
        yield last


def _require_short(length: int) -> None:
    if length > MAX_EVENT_BYTES:
        raise ValueError(f"an event of more than {MAX_EVENT_BYTES >> 20} MiB")
