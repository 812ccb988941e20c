"""Where a run's checkpoints are kept: one SQLite file in its folder, from which it goes on after a kill."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver

from harness.errors import CutegenError, MachineError, UserError
from harness.frozen import Frozen
from nodes.state import TaskInput

BUSY_S = 10.0


def checkpoint_types() -> list[type]:
    """Every noun that a checkpoint may hold; nothing else is built from the file when it is read.

    They are all defined by now: the state, imported above, imports them.
    """
    found: list[type] = [TaskInput]
    waiting: list[type] = [Frozen]
    while waiting:
        noun = waiting.pop()
        found.append(noun)
        waiting += noun.__subclasses__()
    return found


@contextmanager
def open_saver(file: Path) -> Iterator[SqliteSaver]:
    """Open, or create, the checkpoints of a run. Failures of the file become `MachineError` or `UserError`."""
    try:
        with closing(sqlite3.connect(file, check_same_thread=False, timeout=BUSY_S)) as connection:
            yield SqliteSaver(connection, serde=JsonPlusSerializer(allowed_msgpack_modules=checkpoint_types()))
    except sqlite3.Error as error:
        raise _explained(error, file) from error


def _explained(error: sqlite3.Error, file: Path) -> CutegenError:
    if isinstance(error, sqlite3.OperationalError):
        return MachineError(
            f"The checkpoint file {file} cannot be used: {error}.",
            "Is there room on the disk, and may you write to the folder? Then go on with --resume.",
        )
    return UserError(f"{file} is damaged ({error}).", "Start a new run; the best kernel so far lies in kernel.cu.")
