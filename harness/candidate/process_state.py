"""What a call must leave in its caller's process as it found it. Standard library only: it stands beside the candidate.

A program goes on after a kernel: with another rounding mode, subnormals flushed to zero, signals blocked, another
locale or fewer threads it computes something else. What is read here a kernel could forge; it would have to mean it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.wire.team import Team
else:
    from team import Team

LC_ALL = 6  # bits/locale.h
SIGNALS_BYTES, PROCESSORS_BYTES = 128, 128
"""Of glibc's sigset_t and cpu_set_t."""
_ENVIRONMENT_BYTES = 64
"""More than any fenv_t has. On x86-64 it holds x87's control word first and MXCSR at 28 (bits/fenv.h)."""
_X87_CONTROL, _MXCSR = slice(0, 2), slice(28, 32)
_RAISED = 0x3F
"""MXCSR's exception flags: arithmetic raises them."""
_SET_THREADS, _SET_LEVELS = "omp_set_num_threads", "omp_set_max_active_levels"
_GET_THREADS, _GET_LEVELS = "omp_get_max_threads", "omp_get_max_active_levels"
_OPENMP = (_GET_THREADS, "omp_get_dynamic", _GET_LEVELS)
_NAMES = ("rounding and subnormals", "x87 control word", "signal mask", "locale", "thread's locale", "processors")

State = tuple[int | bytes | None, ...]


class ProcessState:
    """Reads the state in some microseconds; `changes` compares with what it was when this was made."""

    def __init__(self) -> None:
        self._libc, self._libm = ctypes.CDLL(None), ctypes.CDLL("libm.so.6")
        self._libc.setlocale.restype = ctypes.c_char_p
        self._libc.uselocale.restype = ctypes.c_void_p
        self._environment = ctypes.create_string_buffer(_ENVIRONMENT_BYTES)
        self._signals = ctypes.create_string_buffer(SIGNALS_BYTES)
        self._processors = ctypes.create_string_buffer(PROCESSORS_BYTES)
        self._on_x86 = os.uname().machine == "x86_64"
        self._openmp: list[ctypes._NamedFuncPointer] = []
        self._teams: _Teams | None = None
        self._every = os.sched_getaffinity(0)
        self._team = Team()
        self._reading = threading.Lock()
        self._names, self._before = [*_NAMES], self._read()

    def watch_openmp(self, library: ctypes.CDLL) -> None:
        """Look at the thread settings of the OpenMP runtime, too, that a freshly loaded library brought along."""
        found = [name for name in _OPENMP if hasattr(library, name)]
        self._teams = _Teams(library, self._team) if hasattr(library, _SET_THREADS) else None
        self._openmp = [library[name] for name in found]
        self._names += [f"{name}()" for name in found]
        self._before += self._threads()
        self.have_threads(0)

    def have_threads(self, count: int, *, nested: bool = False) -> None:
        """Let OpenMP's teams that this thread starts have so many threads, or with 0 as many as is usual; `nested`, as
        if they were started from a team's thread, one, however many are asked for. A usual team's threads stay on a
        processor each; a thread that asks for others runs wherever the system lets it.

        From now on that is what must be left as it was found. Nothing where the library brought no OpenMP.
        """
        if self._teams is not None:
            self._teams.have(count, nested=nested)
            self._before = self._placed() + self._threads()

    def enter(self, count: int, *, nested: bool = False) -> None:
        """The same in a thread of its own, whose teams begin with the environment's number and end with the thread."""
        if self._teams is not None:
            self.have_threads(count or self._teams.usual, nested=nested)

    def have_usually(self, count: int, processors: list[int]) -> None:
        """Let so many be what OpenMP's teams have whenever nobody asks for others, or with 0 as many as they began
        with, and these the processors they run on, or with none all of them."""
        if self._teams is not None:
            self._teams.usual = count or self._teams.began
            self._teams.processors = processors or self._teams.every
            self.have_threads(0)
        else:
            os.sched_setaffinity(0, processors or self._every)
            self._before = self._placed()

    @property
    def usual_threads(self) -> int:
        """How many threads there are when OpenMP's teams have as many as they began with."""
        return self._teams.began if self._teams else 1

    def changes(self) -> str:
        """What is otherwise, as a phrase with values before and now; empty where nothing is."""
        with self._reading:
            now = self._read() + self._threads()
        if now == self._before:
            return ""
        each = zip(self._names, self._before, now, strict=True)
        return "; ".join(f"{name} {_shown(was)} before, {_shown(got)} after" for name, was, got in each if got != was)

    def _placed(self) -> State:
        """`_before` without OpenMP's part, with the processors of this thread."""
        self._libc.sched_getaffinity(0, PROCESSORS_BYTES, self._processors)
        return (*self._before[: len(_NAMES) - 1], self._processors.raw)

    def _read(self) -> State:
        libc = self._libc
        libc.pthread_sigmask(signal.SIG_BLOCK, None, self._signals)
        libc.sched_getaffinity(0, PROCESSORS_BYTES, self._processors)
        locale = libc.setlocale(LC_ALL, None), libc.uselocale(None)
        return (*self._floating_point(), self._signals.raw, *locale, self._processors.raw)

    def _floating_point(self) -> tuple[int, int]:
        """Rounding, precision, trapped exceptions and the handling of subnormals."""
        if not self._on_x86:
            return self._libm.fegetround(), 0
        self._libm.fegetenv(self._environment)
        raw = self._environment.raw
        vectors = int.from_bytes(raw[_MXCSR], "little") & ~_RAISED
        return vectors, int.from_bytes(raw[_X87_CONTROL], "little")

    def _threads(self) -> State:
        return tuple(read() for read in self._openmp)


class _Teams:
    """The threads of OpenMP's teams. What ends a larger team is a smaller one: that must not be the kernel's next."""

    def __init__(self, library: ctypes.CDLL, team: Team) -> None:
        self._library, self._team = library, team
        self._levels = library[_GET_LEVELS]()
        self.usual = self.began = int(library[_GET_THREADS]())
        self.processors = self.every = sorted(os.sched_getaffinity(0))

    def have(self, count: int, *, nested: bool) -> None:
        self._library[_SET_THREADS](count or self.usual)
        self._library[_SET_LEVELS](0 if nested else self._levels)
        os.sched_setaffinity(0, self.every)  # which new threads of a team begin with
        if not count:
            self._team.put(self._library, self.began, [{each} for each in self.processors])


def _shown(value: int | bytes | None) -> str:
    """A word, a name, or a set of bits."""
    if not isinstance(value, bytes):
        return hex(value or 0)
    return value.decode() if value.isascii() and b"\0" not in value else hex(int.from_bytes(value, "little"))
