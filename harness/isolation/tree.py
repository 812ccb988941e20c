"""A process and everything it started: find, weigh, pause, resume, kill. Standard library only.

The launcher starts once a candidate and the watcher polls: hence plain paths and no pathlib, 4 ms of every start.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass

GUARD_NAME = b"cutegen-guard"
"""What the launcher calls itself, for `pause_tree` to find it."""

_BLOCK, _PAGE = 512, 4096
_THREADS = 17
"""Where a process's state line, after its name, has the number of threads. A process whose first thread has ended is
called a zombie, but lives while there are others."""
_TICKS = os.sysconf("SC_CLK_TCK")
_NANOSECONDS = 1e9
_SCHEDULERS = 2
"""Of a process's clocks (clock_getcpuclockid(3)) the one that the scheduler keeps, to the nanosecond."""
_KILL_WITHIN_S = 10.0
"""A process in uninterruptible sleep outlives a SIGKILL for a while; longer than this nobody waits for it."""


def descendants(pid: int) -> list[int]:
    """Live processes below `pid`, itself excluded, zombies left out; one pass over /proc, parents first."""
    children = _families()
    found = list(children.get(pid, ()))
    for process in found:  # grows while it is walked
        found += children.pop(process, ())
    return found


def _children(pid: int) -> list[int]:
    return _families().get(pid, [])


def _families() -> dict[int, list[int]]:
    """All live processes by their parent."""
    families: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 (a Path object for each process is too slow for a poll)
        if name.isdigit():
            parent = _live_parent(name)
            if parent is not None:
                families.setdefault(parent, []).append(int(name))
    return families


def _live_parent(name: str) -> int | None:
    try:
        text = _read(f"/proc/{name}/stat")
    except OSError:
        return None  # it has just ended
    fields = text[text.rindex(b")") + 2 :].split(None, _THREADS + 1)  # the name before may hold spaces and brackets
    ended = fields[0] in b"ZX" and int(fields[_THREADS]) <= 1
    return None if ended else int(fields[1])


def told_in(process: int) -> str:
    """The folder that tells of a live process; that of another thread where its first one has ended."""
    folder = f"/proc/{process}"
    if _read(f"{folder}/stat").rpartition(b")")[2].split(None, 1)[0] in b"ZX":
        others = (name for name in os.listdir(f"{folder}/task") if name != str(process))  # noqa: PTH208 (as above)
        return next((f"{folder}/task/{name}" for name in others), folder)
    return folder


def _read(path: str) -> bytes:
    """A short file's bytes; without Python's buffers, which would double the time of a look at all processes."""
    file = os.open(path, os.O_RDONLY)
    try:
        return os.read(file, 4096)
    finally:
        os.close(file)


@dataclass(frozen=True)
class Weight:
    """What some processes hold: bytes of memory, and of files on disk that no name leads to any more."""

    memory_bytes: int
    unnamed_bytes: int


def weigh(processes: Iterable[int]) -> Weight:
    """What these hold. Memory is anonymous and shared pages, which count once for each process that shares them, and
    memory files that nobody has mapped."""
    resident = 0
    parked: dict[tuple[int, int], int] = {}
    unnamed: dict[tuple[int, int], int] = {}
    for process in processes:
        with contextlib.suppress(OSError):  # it has just ended, or hides its descriptors
            folder = told_in(process)
            resident += _resident(folder)
            _open_files(folder, parked, unnamed)
    return Weight(resident + sum(parked.values()), sum(unnamed.values()))


def _resident(folder: str) -> int:
    kilobytes = 0
    for line in _read(f"{folder}/status").splitlines():
        if line.startswith((b"RssAnon:", b"RssShmem:")):
            kilobytes += int(line.split()[1])
    return kilobytes * 1024


def _open_files(folder: str, parked: dict[tuple[int, int], int], unnamed: dict[tuple[int, int], int]) -> None:
    """Sort a process's open files without a name, memory files and deleted ones, by what they are; with their bytes."""
    for entry in os.scandir(f"{folder}/fd"):
        with contextlib.suppress(OSError):  # closed meanwhile
            target = os.readlink(entry.path)  # noqa: PTH115 (a memory file has no path)
            if target.endswith(" (deleted)"):
                facts = os.stat(entry.path)  # noqa: PTH116 (as above)
                kind = parked if target.startswith("/memfd:") else unnamed
                kind[facts.st_dev, facts.st_ino] = facts.st_blocks * _BLOCK


def folder_bytes(folder: str, most: int) -> int:
    """Bytes on disk below `folder`; counting ends above `most`.

    An entry counts as a page at least: empty files fill a disk's tables, too. A folder that is shut, or whose name grew
    too long for the system to follow, hides what is in it: it counts as more than `most`.
    """
    total = 0
    folders = [folder]
    while folders and total <= most:
        try:
            for entry in os.scandir(folders.pop()):
                total += _entry_bytes(entry)
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
        except (FileNotFoundError, NotADirectoryError):
            continue  # removed or replaced meanwhile
        except OSError as failure:
            if failure.errno not in (errno.ENAMETOOLONG, errno.EACCES, errno.ELOOP):
                raise
            return most + 1
    return total


def _entry_bytes(entry: os.DirEntry[str]) -> int:
    try:
        return max(entry.stat(follow_symlinks=False).st_blocks * _BLOCK, _PAGE)
    except FileNotFoundError:
        return 0


def pause_tree(pid: int, below: set[int] | None = None) -> set[int]:
    """SIGSTOP `pid` and its descendants, until no new one shows up; the descendants, for `resume_tree`.

    Where `pid` leads to the launcher, that one goes on and only what is below it stops: it has to notice when its
    caller dies. `below` are the descendants where they are known, and none begins another: looking for them takes
    milliseconds.
    """
    guard = guard_of(pid)
    if guard is None:
        _signal([pid], signal.SIGSTOP)
    if below:
        _signal(below, signal.SIGSTOP)
        return below
    return _stop_descendants(pid if guard is None else guard)


def threads_of(pid: int) -> int:
    """How many threads a process has; 0 where it is gone."""
    try:
        return len(os.listdir(f"/proc/{pid}/task"))  # noqa: PTH208 (as above)
    except OSError:
        return 0


def busy_threads(pid: int) -> dict[int, float]:
    """Those beside a process's first one that run or want to, with the seconds that each has computed."""
    found = {}
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 (as above)
            if int(name) != pid:
                fields = _read(f"/proc/{pid}/task/{name}/stat").rpartition(b")")[2].split()
                if fields[0] == b"R":
                    found[int(name)] = (int(fields[11]) + int(fields[12])) / _TICKS
    return found


def thread_times(pid: int) -> dict[int, tuple[float, float]]:
    """Of each thread of a process, the seconds that it ran and those that it waited for a processor; empty where the
    system does not tell (proc(5), schedstat)."""
    found = {}
    with contextlib.suppress(OSError, ValueError):
        for name in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 (as above)
            ran, waited, _ = _read(f"/proc/{pid}/task/{name}/schedstat").split()
            found[int(name)] = int(ran) / _NANOSECONDS, int(waited) / _NANOSECONDS
    return found


def cpu_seconds(pid: int) -> float:
    """What all threads of a process have computed, ended ones included; exact while none of them runs."""
    with contextlib.suppress(OSError):
        return time.clock_gettime((~pid << 3) | _SCHEDULERS)
    return 0.0


def pause(process: int) -> None:
    """SIGSTOP a process that can start no other. Nothing is looked for: with many processes that takes milliseconds."""
    _signal([process], signal.SIGSTOP)


def guard_of(pid: int) -> int | None:
    """The launcher: `pid` itself or, inside bubblewrap, an only child's only child.

    The first one with the name counts. A candidate may take the name too, but is always further down.
    """
    line = [pid]
    while len(line) == 1:
        if _name(line[0]) == GUARD_NAME:
            return line[0]
        line = _children(line[0])
    return None


def _name(pid: int) -> bytes:
    try:
        return _read(f"/proc/{pid}/comm").rstrip(b"\n")
    except OSError:
        return b""  # it has just ended


def resume_tree(pid: int, below: Iterable[int] | None = None) -> None:
    """SIGCONT the descendants of `pid`, then itself. `below` are they, where that is known of when they were paused."""
    _signal([*(reversed(descendants(pid)) if below is None else below), pid], signal.SIGCONT)


def kill_tree(pid: int) -> int:
    """SIGKILL `pid` and everything below it; how many processes there were.

    All are stopped before any is killed, so that none forks away meanwhile. The caller still has to reap `pid`.
    """
    _signal([pid], signal.SIGSTOP)
    killed = kill_descendants(pid)
    _signal([pid], signal.SIGKILL)
    return killed + 1


def kill_descendants(pid: int) -> int:
    """SIGKILL everything below `pid`, but not itself; how many processes there were."""
    seen: set[int] = set()
    deadline = time.monotonic() + _KILL_WITHIN_S
    while time.monotonic() < deadline:
        living = _stop_descendants(pid)
        if not living:
            break
        seen |= living
        _signal(living, signal.SIGKILL)
        _reap_orphans(pid)
        time.sleep(0.001)  # they need the core to end
    return len(seen)


def _stop_descendants(pid: int) -> set[int]:
    stopped: set[int] = set()
    deadline = time.monotonic() + _KILL_WITHIN_S
    while time.monotonic() < deadline:
        living = set(descendants(pid))
        if living <= stopped:
            return living
        _signal(living - stopped, signal.SIGSTOP)
        stopped |= living
    return stopped


def _reap_orphans(pid: int) -> None:
    """A subreaper that kills its own descendants inherits their zombies."""
    if pid != os.getpid():
        return
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _signal(processes: Iterable[int], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # ended meanwhile; or, for a process whose
            os.kill(process, number)  # user changed, nothing that we may do
