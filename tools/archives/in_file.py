"""An archive in one SQLite file, which the processes of a machine share."""

from __future__ import annotations

import fcntl
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Protocol

from harness.nouns.errors import MachineError, UserError

# -- The archive's table, the statements that every place understands, and what is said of a place that fails ---------


SCHEMA = 1
COLUMNS = (
    "run", "digest", "task", "name", "op_class", "operations", "sizes", "target", "device", "source", "author",
    "operator", "move", "parents", "features", "status", "speedup", "verdict", "dollars", "seconds",
)  # fmt: skip
REMEDY = "The run's own folder has every kernel; they are written into the archive once it can be used."
OTHER = "Name another archive with --archive; this one was left as it is."

_ROWS_TABLE = """
CREATE TABLE {table} (
    run TEXT NOT NULL, digest TEXT NOT NULL, task TEXT NOT NULL, name TEXT NOT NULL, op_class TEXT NOT NULL,
    operations TEXT NOT NULL, sizes TEXT NOT NULL, target TEXT NOT NULL, device TEXT NOT NULL, source TEXT NOT NULL,
    author TEXT NOT NULL, operator TEXT NOT NULL, move TEXT NOT NULL, parents TEXT NOT NULL, features TEXT NOT NULL,
    status TEXT NOT NULL, speedup {real}, verdict TEXT NOT NULL, dollars {real} NOT NULL, seconds {real} NOT NULL,
    created TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (run, digest)
)
"""
_FASTEST = """
SELECT task, name, op_class, operations, sizes, device, source, move, speedup FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY task, device ORDER BY speedup DESC) AS place FROM {table}
    WHERE target = {mark} AND status = 'passed' AND length(source) <= {mark} AND run <> {mark}
) AS ranked WHERE place = 1 ORDER BY created DESC LIMIT {mark}
"""

_MOVES = """
SELECT made.task, made.name, made.op_class, made.operations, made.sizes, made.device, made.move, made.source,
    made.verdict, base.digest AS parent, base.source AS before, base.speedup AS was
FROM {table} AS made JOIN {table} AS base ON base.run = made.run AND made.parents = '["' || base.digest || '"]'
WHERE made.target = {mark} AND base.status = 'passed' AND made.move <> '' AND length(made.source) <= {mark}
    AND length(base.source) <= {mark} AND made.run <> {mark} ORDER BY made.created DESC LIMIT {mark}
"""

Row = tuple[object, ...]


class Statements:
    """The statements in the words of one place: its table's name, its type for numbers, its mark for a value."""

    def __init__(self, table: str, *, real: str, mark: str) -> None:
        named = ", ".join(COLUMNS)
        renewed = ", ".join(f"{name} = excluded.{name}" for name in COLUMNS)
        self.make = _ROWS_TABLE.format(table=table, real=real)
        self.put = (
            f"INSERT INTO {table} ({named}) VALUES ({', '.join([mark] * len(COLUMNS))}) "
            f"ON CONFLICT (run, digest) DO UPDATE SET {renewed}"
        )
        self.held = f"SELECT count(*) FROM {table} WHERE run = {mark}"
        self.fastest = _FASTEST.format(table=table, mark=mark)
        self.moves = _MOVES.format(table=table, mark=mark)


class Place(Protocol):
    """Keeps rows of `COLUMNS`. Every method raises `MachineError` where it cannot be used just now, and `UserError`
    where it is no archive, or one of another schema version."""

    def put(self, run: str, rows: Sequence[Row]) -> int:
        """Write rows of one run, or write them again: all or none. How many of that run's are there then."""
        ...

    def fastest(self, target: str, most_chars: int, but: str, most: int) -> list[dict[str, Any]]:
        """The fastest kernel of each task and device that is right and not too long, the latest tasks first."""
        ...

    def moves(self, target: str, most_chars: int, but: str, most: int) -> list[dict[str, Any]]:
        """Kernels that one move made of a right one, each with that one's source and speed-up, the latest first."""
        ...


def of_another_schema(place: str, version: object) -> str:
    """What is said of an archive that another version of this program wrote."""
    return f"{place} is of schema {version}; this version of cutegen reads archives of schema {SCHEMA}."


# -- An archive in one SQLite file, which the processes of a machine share --------------------------------------------


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

    def moves(self, target: str, most_chars: int, but: str, most: int) -> list[dict[str, Any]]:
        """See `Place`."""
        with self._open() as connection:
            found = connection.execute(_SAID.moves, (target, most_chars, most_chars, but, most)).fetchall()
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
