"""What a library runs, as one digest: two kernels with the same one differ in their texts alone."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from pathlib import Path

from harness.nouns.reading import read_bounded

RUNS = (".text", ".rodata", ".data", ".nv_fatbin")
"""Sections that hold instructions, for the processor or, in the last one, for GPUs, and the constants they read."""

_MAGIC = b"\x7fELF\x02\x01"
"""64 bits, the lowest byte first: what every machine is that kernels are built for."""
_HEADERS = struct.Struct("<40xQ10xHHH")
"""Of the file's header (ELF-64): where the table of sections lies, an entry's size, how many, which one holds names."""
_SECTION = struct.Struct("<II16xQQ")
"""Of a section's entry: its name, its type, where it lies and its size."""
_NO_BYTES = 8


def fingerprint(library: Path) -> str:
    """SHA-256 of the sections that run, in hex; empty for a file that is no library, or a damaged one."""
    try:
        found = sorted(_sections(read_bounded(library)))
    except (OSError, struct.error, ValueError, OverflowError):
        return ""
    digest = hashlib.sha256()
    for name, held in found:
        digest.update(f"{name} {len(held)}\n".encode())
        digest.update(held)
    return digest.hexdigest() if found else ""


def _sections(image: bytes) -> Iterator[tuple[str, bytes]]:
    """The name and the bytes of each section that runs. Raises `ValueError` and `struct.error`."""
    if not image.startswith(_MAGIC):
        raise ValueError("no 64-bit ELF file")
    table, size, count, at_names = _HEADERS.unpack_from(image)
    entries = [_SECTION.unpack_from(image, table + index * size) for index in range(count)]
    names = entries[at_names][2] if at_names < count else 0
    for named, kind, start, length in entries:
        name = image[names + named : image.index(b"\0", names + named)].decode("ascii", "replace")
        if kind != _NO_BYTES and (name in RUNS or name.startswith((".text.", ".rodata."))):
            yield name, image[start : start + length]
