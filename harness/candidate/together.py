"""Calls from threads of their own, also from two at once. Standard library only: it stands beside the candidate."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import cycle

TOGETHER_S, AT_MOST_S = 0.03, 3.0
"""How long two threads call side by side, by what each of them computes, since on a busy machine they take turns in the
middle of calls; and by the clock."""

Calls = Callable[[list[int]], bytes]


@dataclass
class Together:
    """Two threads that call at once: the first on its slots, the other on others, for as long as that goes on.

    `call` makes calls on some slots and gives the runner's answer, of which `went_well` tells; `results` reads a slot's
    outputs. The first has called alone before, and ends where a result is another one than then: it lies there to be
    judged.
    """

    call: Calls
    went_well: Callable[[bytes], bool]
    results: Callable[[int], list[bytes]]
    enter: Callable[[], None]
    _ready: threading.Barrier = field(default_factory=lambda: threading.Barrier(2))
    _enough: threading.Event = field(default_factory=threading.Event)
    _over: threading.Event = field(default_factory=threading.Event)
    _answers: dict[str, bytes] = field(default_factory=dict)

    def answer(self, slots: Sequence[int], stack_kib: int) -> bytes:
        """The answer to an order of calls on these slots; of two, one that tells of a failure."""
        halves = list(slots[::2]), list(slots[1::2])
        from_others([lambda: self._lead(halves[0]), lambda: self._accompany(halves[1])], stack_kib)
        return min(self._answers.values(), key=self.went_well)

    def _lead(self, slots: list[int]) -> None:
        self.enter()
        answer = self.call(slots)
        alone = {slot: self.results(slot) for slot in slots}
        self._ready.wait()
        own, real = time.thread_time() + TOGETHER_S, time.monotonic() + AT_MOST_S
        for slot in cycle(slots):
            answer = self.call([slot])
            done = (time.thread_time() > own and self._enough.is_set()) or time.monotonic() > real
            if done or self.results(slot) != alone[slot] or not self.went_well(answer):
                break
        self._answers["first"] = answer
        self._over.set()

    def _accompany(self, slots: list[int]) -> None:
        self.enter()
        self._ready.wait()
        own = time.thread_time() + TOGETHER_S
        answer = self.call(slots)
        while slots and not self._over.is_set() and self.went_well(answer):
            answer = self.call(slots)
            if time.thread_time() > own:
                self._enough.set()
        self._answers["other"] = answer
        self._enough.set()


def from_others(work: list[Callable[[], None]], stack_kib: int) -> None:
    """Each from a thread of its own, at once, with stacks of so many KiB; with 0 as large as any."""
    usual = threading.stack_size(stack_kib << 10) if stack_kib else threading.stack_size()
    threads = [threading.Thread(target=each) for each in work]
    for thread in threads:
        thread.start()
    threading.stack_size(usual)
    for thread in threads:
        thread.join()
