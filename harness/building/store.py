"""A content-addressed folder store: entries appear whole or not at all, whoever else builds the same."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
import struct
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from harness.machine.system import cache_dir
from harness.nouns.errors import MachineError
from harness.nouns.reading import read_bounded

_ABANDONED_S = 24 * 3600.0
_REMEDY = "Make room, or set CUTEGEN_CACHE to a folder that can be written."


class Store:
    """Folders under `cache_dir()/<kind>`, each named by a digest of everything that it was made from."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    @property
    def root(self) -> Path:
        """Where this store's entries lie; follows CUTEGEN_CACHE."""
        return cache_dir().absolute() / self.kind

    def entry(self, key: str) -> Path:
        """The folder of `key`, present or not."""
        return self.root / key[:2] / key

    @contextmanager
    def staging(self) -> Iterator[Path]:
        """A private folder on the same file system, removed at the end unless it was published."""
        with _machine_errors(self.root):
            parent = cache_dir().absolute() / "staging"
            parent.mkdir(parents=True, exist_ok=True)
            _sweep(parent)
            folder = Path(tempfile.mkdtemp(dir=parent))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def publish(self, staged: Path, key: str) -> Path:
        """Move a staged folder to its entry and return that. Where somebody was faster, theirs stays."""
        final = self.entry(key)
        with _machine_errors(final):
            final.parent.mkdir(parents=True, exist_ok=True)
            # Private until now; a kernel may be loaded under another user.
            staged.chmod(0o755)
            try:
                staged.rename(final)
            except OSError as failure:
                if failure.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                    raise
        return final

    @contextmanager
    def lock(self, key: str) -> Iterator[None]:
        """Held by one builder of `key` at a time, across threads and processes; a killed holder lets go."""
        path = self.root / f"{key}.lock"
        with _machine_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = path.open("w")
        with handle:
            with _machine_errors(path):
                fcntl.flock(handle, fcntl.LOCK_EX)
            yield


def exported_modules() -> Store:
    """Programs exported from live modules. Task files made from those load them, so judging children may read here."""
    return Store("modules")


def write_text(path: Path, text: str) -> None:
    """Write a file of the store; `MachineError` where the disk is full or the folder cannot be written."""
    with _machine_errors(path):
        path.write_text(text, encoding="utf-8")


def require_room(folder: Path, needed_bytes: int) -> None:
    """`MachineError` where the file system of `folder` has less than `needed_bytes` left."""
    with _machine_errors(folder):
        free = shutil.disk_usage(folder).free
    if free < needed_bytes:
        problem = f"Only {free >> 20} MB are free under {folder}, and {needed_bytes >> 20} MB are needed."
        raise MachineError(problem, _REMEDY)


def _sweep(parent: Path) -> None:
    """Remove what killed builds left behind: nothing takes as long as `_ABANDONED_S`."""
    for folder in parent.iterdir():
        with suppress(FileNotFoundError):  # another builder sweeps too, or has just finished
            if time.time() - folder.stat().st_mtime > _ABANDONED_S:
                shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _machine_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as failure:
        reason = os.strerror(failure.errno) if failure.errno else str(failure)
        raise MachineError(f"The cache {path} cannot be used: {reason}.", _REMEDY) from failure


# -- What a library runs, as one digest: two kernels with the same one differ in their texts alone --------------------


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
