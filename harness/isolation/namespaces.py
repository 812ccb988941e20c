"""A network and a view of /proc of its own, for a tool that starts its target as another process."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import socket
import struct
from contextlib import suppress

from harness.isolation.policy import MACHINE_WIDE
from harness.isolation.syscalls import checked, libc

_NEW_MOUNTS, _NEW_NETWORK = 0x00020000, 0x40000000  # linux/sched.h
_READ_ONLY, _REMOUNT, _BIND, _RECURSIVE, _PRIVATE = 1, 32, 4096, 16384, 1 << 18  # linux/mount.h
_SET_FLAGS, _UP = 0x8914, 1  # linux/sockios.h, linux/if.h


def separate() -> None:
    """Give this process a network that ends at its own loopback, and seal what is machine-wide in /proc.

    A profiler talks to its target over local sockets, and CUDA in that target writes its threads' names into /proc.
    Nothing happens where the kernel does not permit it: an ordinary user cannot change /proc/sys anyway, and keeps the
    network.
    """
    try:
        checked(libc.unshare(ctypes.c_int(_NEW_MOUNTS | _NEW_NETWORK)), "unshare")
        _mount("none", "/", _RECURSIVE | _PRIVATE)
        for path in MACHINE_WIDE:
            with suppress(FileNotFoundError):
                _mount(path, path, _BIND | _RECURSIVE)
                _mount("none", path, _BIND | _REMOUNT | _READ_ONLY)
        _loopback_up()
    except OSError as error:
        if error.errno != errno.EPERM:
            raise


def _mount(source: str, target: str, flags: int) -> None:
    arguments = (source.encode(), target.encode(), None, ctypes.c_ulong(flags), None)
    checked(libc.mount(*arguments), f"mount {target}")


def _loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sh14x", os.fsencode("lo"), _UP))
