"""Who calls a kernel: how many threads, and which one."""

from __future__ import annotations

from harness.nouns.devices import on_gpu
from harness.nouns.frozen import Frozen


class Caller(Frozen):
    """Where calls come from. OpenMP's teams have `threads` (0: as many as the machine has). Of a `nested` caller, who
    is in a team already, so many may be asked for, and one comes.

    Called `elsewhere` is from a thread of its own, and on a GPU on a stream of its own; that thread's stack has
    `stack_kib` (0: as much as any thread's). Called `together` is from two threads of their own at once.
    """

    threads: int = 0
    nested: bool = False
    elsewhere: bool = False
    stack_kib: int = 0
    together: bool = False

    @property
    def said(self) -> str:
        """As a phrase; empty for a process's first thread with as many threads as the machine has."""
        teams = {0: "", 1: "with 1 OpenMP thread"}.get(self.threads, f"with {self.threads} OpenMP threads")
        came = " in teams of one" if self.nested else ""
        stack = f" with a stack of {self.stack_kib} KiB" if self.stack_kib else ""
        whence = "from two threads at once" if self.together else "from another thread" if self.elsewhere else ""
        return " ".join(filter(None, [f"{teams}{came}", whence and f"{whence}{stack}"]))

    @property
    def patience(self) -> int:
        """How many times longer a call may take: every loop of a large team starts that on a few processors."""
        return max(1, self.threads // 32)


ENDED = "The kernel's process ended during the call."
"""Said of a call before who made it."""
USUAL = Caller()
CALLERS = (
    USUAL,
    Caller(threads=1),
    Caller(threads=160, elsewhere=True),
    Caller(threads=7, together=True),
    Caller(threads=6, elsewhere=True, stack_kib=256),
    Caller(threads=8, nested=True),
    Caller(threads=2, elsewhere=True),
    Caller(threads=3),
)
"""Trials take turns at them: a caller has any number of threads, and calls from any of them."""


def callers(device: str) -> tuple[Caller, ...]:
    """Those of a device's kernels. Calls on two streams at once would share the scratch of one."""
    apart = [each.model_copy(update={"together": False}) for each in CALLERS]
    return tuple(apart) if on_gpu(device) else CALLERS
