"""Where the thread that calls a kernel spends its time, waiting included: a histogram of program counters.

Standard library only. glibc's `sprofil` has the counters and a handler in C for SIGPROF. Its own timer ticks with
processor time and no finer than the system does, 1 to 10 ms; so a clock's timer of ours sends that signal instead, to
the calling thread alone. A thread that another process holds up is met once for it, however long that takes.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

_TICK_NS = 997_000
"""Not a whole millisecond, so that no kernel keeps step with it."""
_SIGNAL = signal.SIGPROF
_TO_THREAD = 4  # SIGEV_THREAD_ID
_LOOK_S = 0.05
_LOADED, _EXECUTABLE = 1, 1  # PT_LOAD, PF_X
_MOST_CODE = 64 << 20
_STEP = 2
"""Bytes of code that share a counter: glibc's least."""


class _Segment(ctypes.Structure):
    """Elf64_Phdr."""

    _fields_: ClassVar = [("type", ctypes.c_uint32), ("flags", ctypes.c_uint32)] + [
        (name, ctypes.c_uint64) for name in ("offset", "address", "physical", "in_file", "in_memory", "align")
    ]


class _Object(ctypes.Structure):
    """The part of struct dl_phdr_info that every version has."""

    _fields_: ClassVar = [
        ("base", ctypes.c_uint64),
        ("name", ctypes.c_char_p),
        ("segments", ctypes.POINTER(_Segment)),
        ("count", ctypes.c_uint16),
    ]


class _Region(ctypes.Structure):
    """struct prof of sys/profil.h."""

    _fields_: ClassVar = [
        ("counters", ctypes.c_void_p),
        ("bytes", ctypes.c_size_t),
        ("start", ctypes.c_size_t),
        ("scale", ctypes.c_ulong),
    ]


class _Event(ctypes.Structure):
    """struct sigevent, 64 bytes in all."""

    _fields_: ClassVar = (
        [("value", ctypes.c_void_p)]
        + [(name, ctypes.c_int) for name in ("signal", "notify", "thread")]
        + [("rest", ctypes.c_char * 44)]
    )


class _Times(ctypes.Structure):
    """struct itimerspec: seconds and nanoseconds, of the interval and to the first tick; `_Times()` is never."""

    _fields_: ClassVar = [(name, ctypes.c_long) for name in ("every_s", "every_ns", "first_s", "first_ns")]


class Code(NamedTuple):
    """A piece of loaded code: whose it is, where it starts as its file counts, where it lies, its bytes."""

    library: str
    offset: int
    address: int
    size: int


def loaded_code() -> list[Code]:
    """The executable segments of all libraries in this process. OSError where the C library does not tell."""
    found: list[Code] = []

    def note(loaded: ctypes._Pointer[_Object], _size: int, _data: int) -> int:
        one = loaded.contents
        name = (one.name or b"").decode(errors="replace")
        for segment in one.segments[: one.count]:
            if segment.type == _LOADED and segment.flags & _EXECUTABLE:
                found.append(Code(name, segment.address, one.base + segment.address, segment.in_memory))
        return 0

    told = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Object), ctypes.c_size_t, ctypes.c_void_p)
    _call("dl_iterate_phdr", told(note), None)
    return found


class Histogram:
    """Counters for these pieces of code. The signal is the process's: one histogram at a time."""

    def __init__(self, pieces: list[Code]) -> None:
        if sum(piece.size for piece in pieces) > _MOST_CODE:
            raise OSError("the kernel's code is too large to be sampled")
        self.pieces = pieces
        self.counters = [(ctypes.c_uint16 * (piece.size // _STEP + 1))() for piece in pieces]
        self._timer = ctypes.c_void_p()

    def start(self) -> None:
        """Count from here on where this thread is met. OSError where the system cannot."""
        regions = (_Region * len(self.pieces))(
            *(
                _Region(ctypes.addressof(counters), ctypes.sizeof(counters), piece.address, 1 << 16)
                for piece, counters in zip(self.pieces, self.counters, strict=True)
            )
        )
        _call("sprofil", regions, len(regions), None, 0)
        signal.setitimer(signal.ITIMER_PROF, 0)
        event = _Event(signal=_SIGNAL, notify=_TO_THREAD, thread=threading.get_native_id())
        _call("timer_create", time.CLOCK_MONOTONIC, ctypes.byref(event), ctypes.byref(self._timer))
        every = _Times(0, _TICK_NS, 0, _TICK_NS)
        _call("timer_settime", self._timer, 0, ctypes.byref(every), None)

    def stop(self) -> None:
        """Count no longer. A tick on its way has been served by the time that the timer is gone."""
        _call("timer_delete", self._timer)
        _call("sprofil", None, 0, None, 0)

    def met(self, library: str) -> int:
        """How often a tick met a library's code so far."""
        pairs = zip(self.pieces, self.counters, strict=True)
        return sum(sum(counters) for piece, counters in pairs if piece.library == library)

    def ticks(self) -> Iterator[tuple[Code, dict[int, int]]]:
        """Of each piece, how often code was met, by its offset in the file."""
        for piece, counters in zip(self.pieces, self.counters, strict=True):
            # The second of a counter's two bytes lies in the instruction that begins at either, but for one of 1 byte.
            yield piece, {piece.offset + _STEP * at + 1: count for at, count in enumerate(counters) if count}


def sample(
    call: Callable[[], None], library: str, *, beside: list[str], limit_s: float, enough: int, file: str
) -> None:
    """Call again and again until `enough` ticks met the library or `limit_s` is over; at least once.

    `file` then holds, as JSON, the ticks in the library by offset, those in each library whose file's name starts with
    one of `beside`, and for what share of the time one of the threads, the one that had the least luck, was ready to
    run and did not. All else, as the interpreter that calls, is left out. Where the machine cannot count, it holds why,
    and nothing was called.
    """
    try:
        histogram = Histogram([piece for piece in loaded_code() if piece.library == library or _begins(piece, beside)])
        histogram.start()
    except OSError as unable:
        Path(file).write_text(json.dumps({"unable": str(unable)}), encoding="utf-8")
        return
    began, ready = time.monotonic(), _ready_ns()
    try:
        _repeat(call, lambda: histogram.met(library) >= enough, limit_s)
    finally:
        histogram.stop()
    held_up = max((waited - ready.get(thread, 0) for thread, waited in _ready_ns().items()), default=0)
    found: dict[str, Any] = {"kernel": {}, "beside": {}, "held_up": held_up * 1e-9 / (time.monotonic() - began)}
    for piece, ticks in histogram.ticks():
        if piece.library == library:
            found["kernel"] |= {str(offset): count for offset, count in ticks.items()}
        elif name := _begins(piece, beside):
            found["beside"][name] = found["beside"].get(name, 0) + sum(ticks.values())
    Path(file).write_text(json.dumps(found), encoding="utf-8")


def _repeat(call: Callable[[], None], done: Callable[[], bool], limit_s: float) -> None:
    end = time.monotonic() + limit_s
    while True:
        look = time.monotonic() + _LOOK_S
        while time.monotonic() < look:
            call()
        if time.monotonic() >= end or done():
            return


def _ready_ns() -> dict[str, int]:
    """How long each thread has waited for a processor so far; empty where the system does not count it."""
    found = {}
    for thread in Path("/proc/self/task").iterdir():
        with suppress(OSError, ValueError, IndexError):
            found[thread.name] = int((thread / "schedstat").read_text(encoding="ascii").split()[1])
    return found


def _begins(piece: Code, names: list[str]) -> str:
    return next((name for name in names if Path(piece.library).name.startswith(name)), "")


def _call(name: str, *arguments: object) -> None:
    function = getattr(ctypes.CDLL(None, use_errno=True), name, None)
    if function is None:
        raise OSError(f"the C library has no {name}")
    if function(*arguments):
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")
