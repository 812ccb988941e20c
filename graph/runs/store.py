"""Where a run's checkpoints are kept: one SQLite file in its folder, from which it goes on after a kill."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver

from harness.nouns.errors import CutegenError, MachineError, UserError
from harness.nouns.frozen import Frozen
from nodes.evolution.state import Brief  # noqa: F401 (its nouns are defined with it)
from nodes.state import TaskInput

BUSY_S = 10.0
WRITTEN = ("msgpack", "null", "bytes")
"""The forms that a run's checkpoints are written in. The library would read others, and build objects from them."""


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


class PlainSerializer(JsonPlusSerializer):
    """Builds our nouns from a checkpoint, and nothing else."""

    def __init__(self) -> None:
        super().__init__(allowed_msgpack_modules=checkpoint_types())

    def with_msgpack_allowlist(self, extra_allowlist: Iterable[tuple[str, ...] | type]) -> PlainSerializer:
        """This one: its list is whole. LANGGRAPH_STRICT_MSGPACK has graphs add the types of their schemas, on a copy
        that would read other forms, too, and of the saver, which langgraph-api's wrapper of one does not survive."""
        return self

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """A value of a checkpoint. Raises `ValueError` for one in a form that no run is written in."""
        if data[0] not in WRITTEN:
            raise ValueError(f"a value of the type {data[0]}")
        return super().loads_typed(data)


@contextmanager
def open_saver(file: Path) -> Iterator[SqliteSaver]:
    """Open, or create, the checkpoints of a run. Failures of the file become `MachineError` or `UserError`."""
    try:
        with closing(sqlite3.connect(file, check_same_thread=False, timeout=BUSY_S)) as connection:
            yield SqliteSaver(connection, serde=PlainSerializer())
    except sqlite3.Error as error:
        raise _explained(error, file) from error


def damaged(file: Path, why: object) -> UserError:
    """What a user is told of checkpoints that cannot be read."""
    remedy = "Start a new run; the best kernel so far lies in kernel.cu."
    return UserError(f"{file} is damaged ({why}).", remedy, final=True)


def _explained(error: sqlite3.Error, file: Path) -> CutegenError:
    # A table or column that is not there is the file's fault, not the machine's.
    if isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
        return MachineError(
            f"The checkpoint file {file} cannot be used: {error}.",
            "Is there room on the disk, and may you write to the folder? Then go on with --resume.",
        )
    return damaged(file, error)
