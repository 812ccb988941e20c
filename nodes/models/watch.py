"""The clock over an endpoint: what it sends is awaited in a thread, so that time passes whatever arrives."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from langchain_core.rate_limiters import BaseRateLimiter, InMemoryRateLimiter

from harness.wire.stopping import Stop, pause, raise_if_stopped, stoppable, woken_by
from nodes.models.endpoint_errors import OutOfTimeError, SilentError

Item = TypeVar("Item")

_LONGEST_WAIT_S = 86_400.0
"""Threads cannot wait for longer than some years; nobody has to."""


class _Reader(Generic[Item]):
    """Takes items one by one in a thread of its own, until it is given up."""

    def __init__(self, make: Callable[[], Iterator[Item]]) -> None:
        self._make = make
        self._box: SimpleQueue[tuple[Item] | Exception | None] = SimpleQueue()
        self._given_up = Stop()
        threading.Thread(target=self._read, name="endpoint", daemon=True).start()

    def next(self, seconds: float) -> tuple[Item] | None:
        """The next item, in a tuple; absent at the end. Raises what the making raised, `Empty` out of time, and
        `StoppedError`."""
        with woken_by(lambda: self._box.put(None)):
            found = self._box.get(timeout=min(max(0.0, seconds), _LONGEST_WAIT_S))
        if isinstance(found, Exception):
            raise found
        return found

    def give_up(self) -> None:
        """Nobody waits any more: its connection is cut, and the endpoint need not go on with an answer."""
        self._given_up.ask()

    def _read(self) -> None:
        try:
            with stoppable(self._given_up):
                for item in self._make():
                    if self._given_up.asked:
                        return
                    self._box.put((item,))
            self._box.put(None)
        except Exception as error:  # noqa: BLE001 - it is raised where the items are awaited
            self._box.put(error)


def watched(make: Callable[[], Iterator[Item]], *, silence_s: float, answer_s: float) -> Iterator[Item]:
    """The items that `make` yields, which has to bound their number, as they come.

    Raises `SilentError` where none comes for `silence_s`, `OutOfTimeError` where they have not ended after `answer_s`.
    No part of the way there can hold the clock up: a name that is looked up, headers that trickle, comments, a parser.
    """
    raise_if_stopped()
    until = time.monotonic() + answer_s
    reader = _Reader(make)
    try:
        while True:
            left = until - time.monotonic()
            try:
                found = reader.next(min(silence_s, left))
            except Empty:
                raise (SilentError(silence_s) if silence_s < left else OutOfTimeError) from None
            if found is None:
                return
            if time.monotonic() > until:
                raise OutOfTimeError
            yield found[0]
    finally:
        reader.give_up()


# -- How fast one endpoint may be asked: by all runs of this process together -----------------------------------------


_LOOK_EVERY_S = 0.05

_lock = threading.Lock()
_limiters: dict[tuple[str, float], BaseRateLimiter] = {}


def limiter_of(base_url: str, requests_per_minute: float) -> BaseRateLimiter:
    """The limiter that everyone shares who asks this endpoint at this rate. Requests are spaced evenly."""
    key = (base_url, requests_per_minute)
    with _lock:
        if key not in _limiters:
            _limiters[key] = InMemoryRateLimiter(
                requests_per_second=requests_per_minute / 60,
                max_bucket_size=1,
            )
        return _limiters[key]


def take_turn(limiter: BaseRateLimiter, within_s: float) -> bool:
    """Wait for one's turn, so long at most; whether it came. The limiter itself would wait for ever."""
    until = time.monotonic() + within_s
    while not limiter.acquire(blocking=False):
        if time.monotonic() >= until:
            return False
        pause(_LOOK_EVERY_S)
    return True
