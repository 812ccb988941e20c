"""The record of what was said: one line of `conversation.jsonl` for each exchange with a model."""

from __future__ import annotations

from pathlib import Path
from threading import Lock
from typing import BinaryIO

from harness.nouns.errors import MachineError
from harness.nouns.reading import cause
from nodes.models.conversation import Exchange

FILE_NAME = "conversation.jsonl"

_writing = Lock()


def record(run_dir: str, said: Exchange) -> None:
    """Append one exchange. Raises `MachineError` where the folder cannot be written.

    A run that was killed and resumed writes the exchange it was killed in again, under the same index.
    """
    file = Path(run_dir) / FILE_NAME
    try:
        with _writing, file.open("a+b") as stream:
            _drop_half_line(stream)
            stream.write(said.line().encode())
    except OSError as error:
        raise MachineError(
            f"Could not write {file}: {cause(error)}.",
            "Make room or the folder writable, then resume the run.",
        ) from error


def _drop_half_line(stream: BinaryIO) -> None:
    """Cut off what a kill in the middle of a write left behind the last whole line."""
    size = stream.seek(0, 2)
    if size == 0:
        return
    stream.seek(size - 1)
    if stream.read(1) == b"\n":
        return
    stream.seek(0)
    stream.truncate(stream.read().rfind(b"\n") + 1)
