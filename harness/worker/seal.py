"""A runner gives up, for good, every way to code that is not mapped yet. Standard library only."""

from __future__ import annotations

import ctypes
import os

_SECCOMP = {"x86_64": 317, "aarch64": 277}
_SET_MODE_FILTER, _ALL_THREADS = 1, 1  # linux/seccomp.h


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def seal(program: bytes) -> None:
    """Put a filter before the system calls of all threads. OSError where the kernel refuses, for one of them too."""
    buffer = ctypes.create_string_buffer(program, len(program))
    header = _Program(len(program) // 8, ctypes.cast(buffer, ctypes.c_void_p))
    libc = ctypes.CDLL(None, use_errno=True)
    numbers = (_SECCOMP[os.uname().machine], _SET_MODE_FILTER, _ALL_THREADS)
    if answer := libc.syscall(*map(ctypes.c_long, numbers), ctypes.byref(header)):
        reason = os.strerror(ctypes.get_errno()) if answer < 0 else f"thread {answer} has a filter of its own"
        raise OSError(ctypes.get_errno(), f"the runner could not be sealed: {reason}")
