"""Landlock: the kernel lets this process reach only the paths on a list. Constants from linux/landlock.h."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
from collections.abc import Iterable

from harness.isolation.policy import CPU_FACTS, SYSTEM_DEVICES, Access
from harness.isolation.syscalls import checked, forbid_new_privileges, libc

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same numbers on every architecture
_VERSION_FLAG, _PATH_BENEATH = 1, 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_MAKE_CHAR, _MAKE_BLOCK = 1 << 6, 1 << 11
_FIRST_ABI = (1 << 13) - 1
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_ON_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_TCP = 3  # bind and connect
_SCOPE_SOCKETS, _SCOPE_SIGNALS = 1, 2

_READ = _READ_FILE | _READ_DIR
_USE = _READ | _EXECUTE
_CHANGE_EXISTING = _READ | _WRITE_FILE | _TRUNCATE
_DEVICE = _READ | _WRITE_FILE | _IOCTL_DEV


def landlock_version() -> int:
    """The kernel's Landlock ABI, 0 where there is none. Signals are scoped from 6 on, TCP from 4 on."""
    version = int(libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION_FLAG)))
    return max(version, 0)


def restrict_paths(access: Access, *, signals: bool) -> bool:
    """Confine this thread and its later children to `access`; say whether signals now stay inside.

    Refused for good: paths not on the list, new device nodes, TCP, abstract sockets and tracing of processes
    outside. With `signals`, processes outside may still be signalled. OSError where the kernel has no Landlock or a
    `write` path is missing.
    """
    version = landlock_version()
    if not version:
        raise OSError(errno.ENOSYS, "the kernel has no Landlock, or it is switched off")
    scope = 0 if version < 6 else _SCOPE_SOCKETS if signals else _SCOPE_SOCKETS | _SCOPE_SIGNALS
    ruleset = _new_ruleset(version, tcp=0 if version < 4 or access.profiling else _TCP, scope=scope)
    try:
        for path, rights in _rules(access):
            _allow(ruleset, path, rights & _handled(version))
        for path in access.write:
            _allow_required(ruleset, path, _handled(version) & ~(_MAKE_CHAR | _MAKE_BLOCK | _IOCTL_DEV))
        forbid_new_privileges()
        checked(libc.syscall(_RESTRICT_SELF, ruleset, ctypes.c_uint32(0)), "landlock_restrict_self")
    finally:
        os.close(ruleset)
    return bool(scope & _SCOPE_SIGNALS)


def _handled(version: int) -> int:
    later = ((2, _REFER), (3, _TRUNCATE), (5, _IOCTL_DEV))
    return _FIRST_ABI | sum(right for since, right in later if version >= since)


def _new_ruleset(version: int, tcp: int, scope: int) -> int:
    attributes = struct.pack("<QQQ", _handled(version), tcp, scope)
    size = 24 if version >= 6 else 16 if version >= 4 else 8  # older kernels refuse a longer struct
    return checked(
        libc.syscall(_CREATE_RULESET, ctypes.c_char_p(attributes), ctypes.c_size_t(size), ctypes.c_uint32(0)),
        "landlock_create_ruleset",
    )


def _rules(access: Access) -> Iterable[tuple[str, int]]:
    for path in (*access.system_trees, *access.read):
        yield path, _USE
    for path in access.listed:
        yield path, _READ_DIR
    for path in (*access.system_files, "/proc", *(("/sys",) if access.devices else CPU_FACTS)):
        yield path, _READ
    for path in (*SYSTEM_DEVICES, *access.devices):
        yield path, _DEVICE
    if access.devices:
        yield _thread_names(), _CHANGE_EXISTING


def _thread_names() -> str:
    """The part of /proc where the CUDA driver may write threads' names; without that right cuInit fails (304).

    A root without capabilities still owns /proc/sys: where that is writable, only the process's own threads are open.
    """
    return "/proc/self/task" if os.access("/proc/sys/kernel/core_pattern", os.W_OK) else "/proc"


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        _allow_required(ruleset, path, rights)
    except FileNotFoundError:
        return  # not on this machine: nothing to open


def _allow_required(ruleset: int, path: str, rights: int) -> None:
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= _ON_FILES
        rule = struct.pack("<Qi", rights, descriptor)  # the kernel's struct is packed: 12 bytes
        checked(
            libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.c_char_p(rule), ctypes.c_uint32(0)),
            f"landlock_add_rule {path}",
        )
    finally:
        os.close(descriptor)
