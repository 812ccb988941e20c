"""An archive in one SQLite file, which the processes of a machine share."""

from __future__ import annotations

import fcntl
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from harness.nouns.errors import MachineError, UserError
from tools.archives.rows import OTHER, REMEDY, SCHEMA, Row, Statements, of_another_schema

_TABLE = "kernels"
_SAID = Statements(_TABLE, real="REAL", mark="?")


class InFile:
    """See `Place`."""

    def __init__(self, path: Path, wait_s: float) -> None:
        self._path = path
        self._wait_s = wait_s

    def put(self, run: str, rows: Sequence[Row]) -> int:
        """See `Place`."""
        with self._open() as connection, connection:
            connection.executemany(_SAID.put, rows)
            [held] = connection.execute(_SAID.held, (run,)).fetchone()
        return int(held)

    def fastest(self, target: str, most_chars: int, but: str, most: int) -> list[dict[str, Any]]:
        """See `Place`."""
        with self._open() as connection:
            found = connection.execute(_SAID.fastest, (target, most_chars, but, most)).fetchall()
        return [dict(row) for row in found]

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        if self._path.is_dir():
            raise UserError(f"{self._path} is a folder, no archive.", OTHER)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self._path, timeout=self._wait_s)) as connection:
                connection.row_factory = sqlite3.Row
                self._require_own(connection)
                yield connection
        except sqlite3.Error as error:
            raise self._explained(error) from error
        except OSError as error:
            raise MachineError(f"The archive {self._path} cannot be used: {error.strerror}.", REMEDY) from error

    def _require_own(self, connection: sqlite3.Connection) -> None:
        """Make the tables of a new file, whoever else does at the same time; refuse those of another version."""
        version, tables = _read(connection)
        if version == 0:  # it is new, or just being made
            with self._making():
                version, tables = _read(connection)
                if version == 0 and not tables:
                    version, tables = _make(connection)
        if version == 0 or (version == SCHEMA and _TABLE not in tables):
            raise UserError(f"{self._path} is no archive.", OTHER)
        if version != SCHEMA:
            raise UserError(of_another_schema(str(self._path), version), OTHER)

    @contextmanager
    def _making(self) -> Iterator[None]:
        """One at a time, across threads and processes: SQLite does not wait for its turn at another journal."""
        with self._path.with_name(f"{self._path.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _explained(self, error: sqlite3.Error) -> MachineError | UserError:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            return UserError(f"{self._path} is no archive, or a damaged one ({error}).", "Name another with --archive.")
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            told = f"The archive {self._path} was locked by another program for {self._wait_s:g} s."
            return MachineError(told, REMEDY)
        return MachineError(f"The archive {self._path} cannot be used: {error}.", REMEDY)


def _read(connection: sqlite3.Connection) -> tuple[int, set[str]]:
    """The schema's version, 0 where none was set, and the tables."""
    [version] = connection.execute("PRAGMA user_version").fetchone()
    found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    return version, {name for (name,) in found}


def _make(connection: sqlite3.Connection) -> tuple[int, set[str]]:
    """Table and version in one transaction: nobody sees the one without the other."""
    connection.execute("PRAGMA journal_mode = WAL")
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(_SAID.make)
        connection.execute(f"PRAGMA user_version = {SCHEMA}")
    return _read(connection)
