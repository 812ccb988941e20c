"""The archive of judged kernels: what all evolutions of this user have found, and what comes nearest to a new task.

What is read from it was written by whoever could write the file: bounded, validated row by row, shown as inspiration
only, and judged anew like any kernel before it counts.
"""

from __future__ import annotations

import fcntl
import json
import math
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from harness.machine.cache import cache_dir
from harness.nouns.candidate import Candidate, TargetName
from harness.nouns.errors import MachineError, UserError
from harness.nouns.frozen import Frozen, Label
from harness.nouns.task import Task, TensorSpec
from harness.nouns.verdict import Verdict
from tools.structure import Structure

SCHEMA = 1
NONE = "none"
"""The setting that asks for no archive."""
WAIT_S = 30.0
MOST_SOURCE_CHARS = 16_000
"""No longer kernel is shown to anybody: a prompt has room for little more."""
MOST_TASKS = 2000
"""The latest tasks that are looked through for near ones."""

_TABLE = """
CREATE TABLE IF NOT EXISTS kernels (
    run TEXT NOT NULL, digest TEXT NOT NULL, task TEXT NOT NULL, name TEXT NOT NULL, op_class TEXT NOT NULL,
    operations TEXT NOT NULL, sizes TEXT NOT NULL, target TEXT NOT NULL, device TEXT NOT NULL, source TEXT NOT NULL,
    author TEXT NOT NULL, operator TEXT NOT NULL, move TEXT NOT NULL, parents TEXT NOT NULL, features TEXT NOT NULL,
    status TEXT NOT NULL, speedup REAL, verdict TEXT NOT NULL, dollars REAL NOT NULL, seconds REAL NOT NULL,
    created TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (run, digest)
)
"""
_FASTEST = """
SELECT task, name, op_class, operations, sizes, device, source, move, MAX(speedup) AS speedup FROM kernels
WHERE target = ? AND status = 'passed' AND length(source) <= ? AND run <> ?
GROUP BY task, device ORDER BY rowid DESC LIMIT ?
"""


class Entry(Frozen):
    """One judged kernel on its way into the archive. `operator` says how it was made, of which `parents`."""

    candidate: Candidate
    verdict: Verdict
    operator: str
    move: str
    parents: tuple[str, ...]
    dollars: float
    seconds: float


class Found(Frozen):
    """The fastest kernel of a near task. `speedup` was measured on `device`, and says nothing on another one."""

    task: str
    name: Label
    op_class: str
    operations: tuple[str, ...]
    sizes: tuple[int, ...]
    device: Label
    source: str
    move: Label
    speedup: float


class Archive:
    """One SQLite file, which processes share. Every method raises `MachineError` where it cannot be used just now."""

    def __init__(self, path: Path, wait_s: float | None = None) -> None:
        self.path = path
        self._wait_s = WAIT_S if wait_s is None else wait_s

    @classmethod
    def named(cls, setting: str) -> Archive | None:
        """The archive that the setting names: a path, "none", or empty for that of the cache."""
        if setting == NONE:
            return None
        return cls(Path(setting).expanduser() if setting else cache_dir() / "archive.sqlite")

    def put(self, run: str, task: Task, device: str, entries: Sequence[Entry]) -> int:
        """Write kernels of one run, or write them again; how many of that run's are there then.

        Raises `UserError` for a file that is no such archive.
        """
        rows = [_row(run, task, device, entry) for entry in entries]
        marks = ", ".join("?" * len(_COLUMNS))
        with self._open() as connection, connection:
            connection.executemany(f"INSERT OR REPLACE INTO kernels ({', '.join(_COLUMNS)}) VALUES ({marks})", rows)
            [held] = connection.execute("SELECT count(*) FROM kernels WHERE run = ?", (run,)).fetchone()
        return int(held)

    def nearest(self, task: Task, target: TargetName, most: int, *, but: str = "") -> tuple[Found, ...]:
        """The fastest kernels of the tasks most like this one, the nearest first, those of the run `but` left out.

        Near are tasks of the same class, operations and sizes; in doubt those with the larger gain.
        Raises `UserError` for a file that is no such archive.
        """
        with self._open() as connection:
            rows = connection.execute(_FASTEST, (target, MOST_SOURCE_CHARS, but, MOST_TASKS)).fetchall()
        found = [each for row in rows if (each := _found(dict(row))) is not None]
        return tuple(sorted(found, key=lambda each: (apart(each, task), -each.speedup))[:most])

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.path, timeout=self._wait_s)) as connection:
                connection.row_factory = sqlite3.Row
                self._require_own(connection)
                yield connection
        except sqlite3.Error as error:
            raise self._explained(error) from error
        except OSError as error:
            raise MachineError(f"The archive {self.path} cannot be used: {error.strerror}.", _REMEDY) from error

    def _require_own(self, connection: sqlite3.Connection) -> None:
        """Make the tables of a new file, whoever else does at the same time; refuse those of another version."""
        version, tables = _read(connection)
        if version == 0:  # it is new, or just being made
            with self._making():
                version, tables = _read(connection)
                if version == 0 and not tables:
                    version, tables = _make(connection)
        if version != SCHEMA or "kernels" not in tables:
            known = f"of schema {version}" if version else "no archive"
            raise UserError(
                f"{self.path} is {known}; this version of cutegen reads archives of schema {SCHEMA}.",
                "Name another file with --archive; this one was left as it is.",
            )

    @contextmanager
    def _making(self) -> Iterator[None]:
        """One at a time, across threads and processes: SQLite does not wait for its turn at another journal."""
        with self.path.with_name(f"{self.path.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _explained(self, error: sqlite3.Error) -> MachineError | UserError:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            return UserError(f"{self.path} is no archive, or a damaged one ({error}).", "Name another with --archive.")
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            told = f"The archive {self.path} was locked by another program for {self._wait_s:g} s."
            return MachineError(told, _REMEDY)
        return MachineError(f"The archive {self.path} cannot be used: {error}.", _REMEDY)


_REMEDY = "The run's own folder has every kernel; they are written into the archive once it can be used."
_COLUMNS = (
    "run", "digest", "task", "name", "op_class", "operations", "sizes", "target", "device", "source", "author",
    "operator", "move", "parents", "features", "status", "speedup", "verdict", "dollars", "seconds",
)  # fmt: skip


def apart(found: Found, task: Task) -> float:
    """How far a task is from that of a kernel, from 0 for the same to 3: class, operations and sizes weigh alike."""
    if found.task == task.digest:
        return 0.0
    mine, theirs = set(operations_of(task)), set(found.operations)
    both = mine | theirs
    operations = 1 - len(mine & theirs) / len(both) if both else 1.0
    sizes = abs(_magnitude(sizes_of(task)) - _magnitude(found.sizes)) / 10
    return float(found.op_class != task.op_class) + operations + min(1.0, sizes)


def operations_of(task: Task) -> tuple[str, ...]:
    """The names of a task's operations; none where it could not be traced."""
    return tuple(sorted(task.program.names)) if task.program else ()


def sizes_of(task: Task) -> tuple[int, ...]:
    """How many elements each tensor of a task's first workload has."""
    return tuple(spec.numel for spec in task.signature.arguments if isinstance(spec, TensorSpec))


def _magnitude(sizes: Sequence[int]) -> float:
    """The number of all elements, as a power of two."""
    return math.log2(1 + sum(sizes))


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
        connection.execute(_TABLE)
        connection.execute(f"PRAGMA user_version = {SCHEMA}")
    return _read(connection)


def _row(run: str, task: Task, device: str, entry: Entry) -> tuple[object, ...]:
    candidate, verdict = entry.candidate, entry.verdict
    structure = Structure.of(candidate.source)
    return (
        run, candidate.digest, task.digest, task.name, task.op_class, json.dumps(operations_of(task)),
        json.dumps(sizes_of(task)), candidate.target, device, candidate.source, candidate.author, entry.operator,
        entry.move, json.dumps(entry.parents), structure.model_dump_json() if structure else "{}", verdict.status,
        verdict.timing.speedup if verdict.timing else None, verdict.model_dump_json(), entry.dollars, entry.seconds,
    )  # fmt: skip


_NAMES = TypeAdapter(tuple[str, ...])
_SIZES = TypeAdapter(tuple[int, ...])


def _found(row: dict[str, object]) -> Found | None:
    """A row, as far as it is one that this program could have written."""
    try:
        read = {
            "operations": _NAMES.validate_json(str(row["operations"])),
            "sizes": _SIZES.validate_json(str(row["sizes"])),
        }
        return Found.model_validate(row | read)
    except ValidationError:
        return None
