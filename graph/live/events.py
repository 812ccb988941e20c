"""Events as a browser's EventSource reads them: the words of a feed, a sign of life in silence, and the end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Protocol

from graph.live.feed import Told

SILENCE_S = 10.0
"""Then something is sent that says nothing: else a reader who has gone is not noticed."""
RETRY_MS = 1000


class Reading(Protocol):
    """Something that happens, for one reader."""

    ended: bool

    def read(self) -> Iterator[Told]:
        """What happened since."""
        ...


def batches(feed: Reading) -> Iterator[bytes]:
    """What has been told since the last one; an empty one for nothing. None after the end."""
    yield f"retry: {RETRY_MS}\n\n".encode()
    while True:
        told = list(feed.read())
        yield b"".join(map(written, latest(told)))
        if feed.ended:
            return


def latest(told: list[Told]) -> list[Told]:
    """The events without those that a later one of the same batch makes old: of a log that is long already, most."""
    kept: list[Told] = []
    known: set[tuple[str, object]] = set()
    for each in reversed(told):
        key = (each.kind, each.data.get("run"))
        if each.kind == "step" or key not in known:
            known.add(key)
            kept.append(each)
    return kept[::-1]


def written(told: Told) -> bytes:
    """One event on the wire."""
    return f"id: {told.id}\nevent: {told.kind}\ndata: {json.dumps(told.data)}\n\n".encode()
