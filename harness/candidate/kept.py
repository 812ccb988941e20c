"""What a kernel keeps from call to call: its library's own data, and memory. Standard library only.

What is filled once, when it is first needed, may stay as it is. What changes again is another result's, or another
thread's. Like `process_state` this could be forged from inside; it would have to be meant.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from pathlib import Path

MOST_KEPT_BYTES = 4 << 20
"""Of the heap, after thousands of calls. glibc's own caches of freed blocks count, and Python's."""
_LOOKED_AT_BYTES = 4 << 20
_HEADER, _SEGMENT = struct.Struct("<16xHHIQQQIHHH"), struct.Struct("<IIQQQQQQ")
"""Of an ELF file with 64 bits, and of one of its segments (elf.h)."""
_LOAD, _FIXED_AFTER_LOAD, _WRITABLE = 1, 0x6474E552, 2  # PT_LOAD, PT_GNU_RELRO, PF_W


class _Heap(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
    ))  # fmt: skip


class Kept:
    """Looks at a library that has just been loaded from this path; `note` after calls, `said` at the end.

    Without `heap` it leaves memory aside: CUDA's driver takes megabytes of the heap when it first needs them.
    """

    def __init__(self, path: str, *, heap: bool) -> None:
        try:
            self._spans = list(_written_spans(path))
        except OSError:  # the library has left this process no descriptor
            self._spans = []
        self._last = self._read()
        self._filled: set[int] = set()
        self._changed: set[int] = set()
        self._in_use = _heap_bytes() if heap else None

    def note(self) -> None:
        """Take down what calls have changed of the library's data."""
        now = self._read()
        if now == self._last:
            return
        different = {at for at, (was, byte) in enumerate(zip(self._last, now, strict=True)) if was != byte}
        self._changed |= different & self._filled
        self._filled |= different
        self._last = now

    def said(self) -> str:
        """What is kept that may not be, as a sentence; empty where nothing is."""
        if self._changed:
            return f"The kernel changed {len(self._changed)} bytes of its static data again and again."
        if self._in_use is None:
            return ""
        kept = _heap_bytes() - self._in_use
        return f"The kernel keeps {kept >> 20} MiB of memory after its calls." if kept > MOST_KEPT_BYTES else ""

    def _read(self) -> bytes:
        return b"".join(ctypes.string_at(start, size) for start, size in self._spans)


def _heap_bytes() -> int:
    """Bytes of the C library's heap that are in use; 0 where it does not tell (glibc before 2.33)."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallinfo2"):
        return 0
    libc.mallinfo2.restype = _Heap
    found = libc.mallinfo2()
    return int(found.uordblks + found.hblkhd)


def _written_spans(path: str) -> Iterator[tuple[int, int]]:
    """Addresses and sizes of what of a library can be written once it is loaded."""
    with Path(path).open("rb") as file:
        _, _, _, _, first, _, _, _, each, count = _HEADER.unpack(file.read(_HEADER.size))
        file.seek(first)
        segments = [_SEGMENT.unpack(file.read(each)[: _SEGMENT.size]) for _ in range(count)]
    base = _base(path)
    fixed = max(
        (virtual + size for kind, _, _, virtual, _, _, size, _ in segments if kind == _FIXED_AFTER_LOAD), default=0
    )
    left = _LOOKED_AT_BYTES
    for kind, flags, _, virtual, _, _, size, _ in segments:
        if kind == _LOAD and flags & _WRITABLE:
            start = max(virtual, fixed)
            length = max(0, min(virtual + size - start, left))
            left -= length
            yield base + start, length


def _base(path: str) -> int:
    """Where a library's first byte was mapped."""
    wanted = Path(path).stat()
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        span, _, offset, _, number, *_ = line.split(None, 5)
        if int(number) == wanted.st_ino and int(offset, 16) == 0:
            return int(span.partition("-")[0], 16)
    raise OSError("the library is not mapped")
