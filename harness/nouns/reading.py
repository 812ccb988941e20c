"""Reading what somebody else may have made: never more than a bound, whatever the file says of its size."""

from __future__ import annotations

import errno
import os
from pathlib import Path

MOST_BYTES = 256 << 20


def read_bounded(path: Path, most: int = MOST_BYTES) -> bytes:
    """The file's bytes. Raises `OSError`, for one with more than `most` bytes (a device has no end), too."""
    with path.open("rb") as file:
        read = file.read(most + 1)
    if len(read) > most:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    return read


def cause(error: Exception) -> str:
    """Why a file or a port could not be had, in the system's words, as part of a sentence."""
    if isinstance(error, UnicodeDecodeError):
        return "it is no UTF-8 text"
    return (getattr(error, "strerror", None) or str(error)).lower()


def read_text(path: Path, most: int = MOST_BYTES) -> str:
    """The file's text, line ends as `Path.read_text` has them. Raises `OSError` and `UnicodeDecodeError`."""
    return read_bounded(path, most).decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
