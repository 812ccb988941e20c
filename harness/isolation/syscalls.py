"""The few kernel calls that Python does not offer, through the C library. Linux on x86_64 and aarch64."""

from __future__ import annotations

import ctypes
import os
import struct

libc = ctypes.CDLL(None, use_errno=True)

# linux/prctl.h
_SET_PARENT_DEATH_SIGNAL, _SET_DUMPABLE, _SET_NAME, _SET_SECCOMP, _DROP_BOUNDING = 1, 4, 15, 22, 24
_SET_CHILD_SUBREAPER, _SET_NO_NEW_PRIVILEGES, _AMBIENT, _AMBIENT_CLEAR_ALL = 36, 38, 47, 4
_SECCOMP_MODE_FILTER = 2
_CAPABILITY_VERSION_3 = 0x20080522  # linux/capability.h


def checked(result: int, what: str) -> int:
    """`result` if it is not negative; else an OSError with errno's text and the name of what failed."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def _prctl(option: int, what: str, *arguments: int) -> None:
    padded = [ctypes.c_ulong(value) for value in (*arguments, 0, 0, 0, 0)[:4]]
    checked(libc.prctl(option, *padded), what)


def set_parent_death_signal(number: int) -> None:
    """Have the kernel send `number` to this process when the thread that created it ends. Cleared by setuid."""
    _prctl(_SET_PARENT_DEATH_SIGNAL, "PR_SET_PDEATHSIG", number)


def hide_from_same_user() -> None:
    """Make this process's memory, environment and descriptors unreadable for others of the same user."""
    _prctl(_SET_DUMPABLE, "PR_SET_DUMPABLE", 0)


def set_name(name: bytes) -> None:
    """Change the name that /proc shows for this thread; at most 15 bytes."""
    buffer = ctypes.create_string_buffer(name)
    _prctl(_SET_NAME, "PR_SET_NAME", ctypes.addressof(buffer))


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent has ended, so that no daemon leaves the tree."""
    _prctl(_SET_CHILD_SUBREAPER, "PR_SET_CHILD_SUBREAPER", 1)


def forbid_new_privileges() -> None:
    """No set-uid program gains anything from here on; Landlock and seccomp ask for it."""
    _prctl(_SET_NO_NEW_PRIVILEGES, "PR_SET_NO_NEW_PRIVS", 1)


def drop_capabilities() -> None:
    """Give up every capability for good, also across exec. A root process stays owner of root's files."""
    capability = 0
    while libc.prctl(_DROP_BOUNDING, ctypes.c_ulong(capability), 0, 0, 0) == 0:
        capability += 1
    libc.prctl(_AMBIENT, ctypes.c_ulong(_AMBIENT_CLEAR_ALL), 0, 0, 0)  # fails on kernels without ambient ones: fine
    header = ctypes.create_string_buffer(struct.pack("<Ii", _CAPABILITY_VERSION_3, 0))
    checked(libc.capset(header, ctypes.create_string_buffer(24)), "capset")


class _FilterProgram(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def install_filter(program: bytes) -> None:
    """Put a classic BPF program (8 bytes an instruction) before every system call of this thread."""
    buffer = ctypes.create_string_buffer(program, len(program))
    header = _FilterProgram(len(program) // 8, ctypes.cast(buffer, ctypes.c_void_p))
    address = ctypes.addressof(header)
    _prctl(_SET_SECCOMP, "PR_SET_SECCOMP", _SECCOMP_MODE_FILTER, address)
