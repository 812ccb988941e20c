"""A runner gives up, for good, every way to code that is not mapped yet. Standard library only."""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
from pathlib import Path

_SECCOMP = {"x86_64": 317, "aarch64": 277}
_SET_MODE_FILTER, _ALL_THREADS = 1, 1  # linux/seccomp.h


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def fix_code() -> None:
    """What can be run can be written no more. Callbacks made before stay callable; none is made or freed afterwards.

    libffi, which makes them for ctypes, keeps them in memory that may be both. OSError where the kernel refuses.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        span, rights, *_ = line.split(None, 2)
        if "w" in rights and "x" in rights:
            start, end = (int(part, 16) for part in span.split("-"))
            address, size = ctypes.c_void_p(start), ctypes.c_size_t(end - start)
            if libc.mprotect(address, size, ctypes.c_int(mmap.PROT_READ | mmap.PROT_EXEC)):
                raise OSError(ctypes.get_errno(), "memory that could be written and run stays so")


def let_signals_end() -> None:
    """What libraries do at a signal is done no more: it ends the process, or is ignored where it was.

    Once sealed nobody can put a handler away, and TVM-FFI's for a segmentation fault, which does, would run for ever.
    """
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


def seal(program: bytes) -> None:
    """Put a filter before the system calls of all threads. OSError where the kernel refuses, for one of them too."""
    buffer = ctypes.create_string_buffer(program, len(program))
    header = _Program(len(program) // 8, ctypes.cast(buffer, ctypes.c_void_p))
    libc = ctypes.CDLL(None, use_errno=True)
    numbers = (_SECCOMP[os.uname().machine], _SET_MODE_FILTER, _ALL_THREADS)
    if answer := libc.syscall(*map(ctypes.c_long, numbers), ctypes.byref(header)):
        reason = os.strerror(ctypes.get_errno()) if answer < 0 else f"thread {answer} has a filter of its own"
        raise OSError(ctypes.get_errno(), f"the runner could not be sealed: {reason}")
