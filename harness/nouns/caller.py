"""Who calls a kernel: how many threads, and which one."""

from __future__ import annotations

from harness.nouns.frozen import Frozen


class Caller(Frozen):
    """Where calls come from. OpenMP's teams have `threads` (0: as many as the machine has).

    Called `elsewhere` is from a thread of its own, and on a GPU on a stream of its own.
    """

    threads: int = 0
    elsewhere: bool = False

    @property
    def said(self) -> str:
        """As a phrase; empty for a process's first thread with as many threads as the machine has."""
        teams = {0: "", 1: "1 OpenMP thread"}.get(self.threads, f"{self.threads} OpenMP threads")
        return " ".join(filter(None, [teams and f"with {teams}", "from another thread" if self.elsewhere else ""]))


USUAL = Caller()
CALLERS = (
    USUAL,
    Caller(threads=1),
    Caller(threads=64, elsewhere=True),
    Caller(threads=3),
    Caller(elsewhere=True),
    Caller(threads=8),
    Caller(threads=2, elsewhere=True),
)
"""Trials take turns at them: a caller has any number of threads, and calls from any of them."""
