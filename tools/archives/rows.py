"""The archive's table, the statements that every place understands, and what is said of a place that fails."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

SCHEMA = 1
COLUMNS = (
    "run", "digest", "task", "name", "op_class", "operations", "sizes", "target", "device", "source", "author",
    "operator", "move", "parents", "features", "status", "speedup", "verdict", "dollars", "seconds",
)  # fmt: skip
REMEDY = "The run's own folder has every kernel; they are written into the archive once it can be used."
OTHER = "Name another archive with --archive; this one was left as it is."

_TABLE = """
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

Row = tuple[object, ...]


class Statements:
    """The statements in the words of one place: its table's name, its type for numbers, its mark for a value."""

    def __init__(self, table: str, *, real: str, mark: str) -> None:
        named = ", ".join(COLUMNS)
        renewed = ", ".join(f"{name} = excluded.{name}" for name in COLUMNS)
        self.make = _TABLE.format(table=table, real=real)
        self.put = (
            f"INSERT INTO {table} ({named}) VALUES ({', '.join([mark] * len(COLUMNS))}) "
            f"ON CONFLICT (run, digest) DO UPDATE SET {renewed}"
        )
        self.held = f"SELECT count(*) FROM {table} WHERE run = {mark}"
        self.fastest = _FASTEST.format(table=table, mark=mark)


class Place(Protocol):
    """Keeps rows of `COLUMNS`. Both methods raise `MachineError` where it cannot be used just now, and `UserError`
    where it is no archive, or one of another schema version."""

    def put(self, run: str, rows: Sequence[Row]) -> int:
        """Write rows of one run, or write them again: all or none. How many of that run's are there then."""
        ...

    def fastest(self, target: str, most_chars: int, but: str, most: int) -> list[dict[str, Any]]:
        """The fastest kernel of each task and device that is right and not too long, the latest tasks first."""
        ...


def of_another_schema(place: str, version: object) -> str:
    """What is said of an archive that another version of this program wrote."""
    return f"{place} is of schema {version}; this version of cutegen reads archives of schema {SCHEMA}."
