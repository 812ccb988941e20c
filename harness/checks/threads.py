"""Several pieces of a tensor at a time, each on one thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import Any

import torch

from harness.nouns.devices import on_gpu

Mapped = Callable[..., Iterable[Any]]
"""`map`, or one that works on several pieces at a time."""

SHARES = 4
"""Of each thread: who has waited for a processor leaves the rest to others."""


@contextmanager
def one_thread() -> Iterator[int]:
    """Small pieces on one thread: two would meet at a barrier per operation, and on a busy machine wait there.

    Threads that begin meanwhile have one each, too. Gives the number that torch had before.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield threads
    finally:
        torch.set_num_threads(threads)


@contextmanager
def side_by_side(whole: torch.Tensor, piece: int) -> Iterator[Mapped]:
    """A `map` over pieces of so many elements: as many at a time as torch had threads, which meet at the end alone."""
    with one_thread() as threads:
        if threads == 1 or on_gpu(whole.device.type) or whole.numel() <= piece:
            yield map
        else:
            with ThreadPoolExecutor(threads) as pool:
                yield partial(_in_shares, pool, threads)


def _in_shares(
    pool: ThreadPoolExecutor, threads: int, function: Callable[[Any], Any], pieces: Iterable[Any]
) -> Iterable[Any]:
    """A thread's share is handed over as a whole: for each piece alone that took as long as some pieces do."""
    waiting = [*pieces]
    size = -(-len(waiting) // (SHARES * threads)) or 1
    shares = [waiting[start : start + size] for start in range(0, len(waiting), size)]
    return chain.from_iterable(pool.map(lambda share: [function(piece) for piece in share], shares))
