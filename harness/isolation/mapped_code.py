"""What code a process has mapped, seen from outside, against what it may have. Linux's /proc, standard library only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.isolation.tree import told_in

_KERNELS_OWN = frozenset({"[vdso]", "[vsyscall]", "[uprobes]"})
_FILTERS = "Seccomp_filters:"
"""The line of a process's status with the number of its system call filters, from Linux 5.9 on."""


@dataclass(frozen=True)
class Code:
    """What a process may have mapped: code of these files (as they are called inside), of files whose names begin so,
    and as many bytes that it made itself.

    `sealed`: when it is looked at in the end, it must not be able to get any other.
    """

    files: frozenset[str]
    folders: tuple[str, ...] = ()
    made_bytes: int = 0
    sealed: bool = False


def foreign_code(process: int, allowed: Code) -> str:
    """What a process has mapped as code that is not allowed, in words; empty where there is none.

    OSError where the process has ended or hides its mappings.
    """
    more = -allowed.made_bytes
    for span, _, name in _executable(process):
        if not name:
            start, _, end = span.partition("-")
            more += int(end, 16) - int(start, 16)
        elif name not in _KERNELS_OWN | allowed.files and not name.startswith(allowed.folders):
            return f"code of {name}"
    return f"{more} bytes of code that it made while running" if more > 0 else ""


def _executable(process: int) -> Iterator[tuple[str, str, str]]:
    """Addresses, rights and file of each mapping that may be run."""
    for line in Path(f"{told_in(process)}/maps").read_text(encoding="utf-8", errors="replace").splitlines():
        span, rights, _, _, _, *named = line.split(None, 5)
        if "x" in rights:
            yield span, rights, named[0] if named else ""


def unsealed(process: int, guard: int) -> str:
    """Why a process is not known to be sealed: it can write what it can run, or one of its threads has not the two
    filters more than the launcher, its guard."""
    if any("w" in rights for _, rights, _ in _executable(process)):
        return "code that it can write"
    return "a thread that can still map code" if filtered_twice(process, guard) is False else ""


def filtered_twice(process: int, guard: int) -> bool | None:
    """Whether each thread of a process has two filters more than its guard; None where the system does not tell.

    OSError where one of the two has ended.
    """
    outside = _filters(f"/proc/{guard}")
    if outside is None:
        return None
    return all((_filters(str(thread)) or 0) >= outside + 2 for thread in Path(f"/proc/{process}/task").iterdir())


def _filters(process: str) -> int | None:
    status = Path(f"{process}/status").read_text(encoding="utf-8", errors="replace")
    return next((int(line.split()[1]) for line in status.splitlines() if line.startswith(_FILTERS)), None)
