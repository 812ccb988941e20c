"""An archive in a Postgres database, which machines share. Each call is one transaction on a connection of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from harness.nouns.errors import MachineError, UserError
from tools.archives.in_file import OTHER, REMEDY, SCHEMA, Row, Statements, of_another_schema

SCHEMES = ("postgres://", "postgresql://")
_TABLE, _VERSION = "cutegen_kernels", "cutegen_archive"
_SAID = Statements(_TABLE, real="DOUBLE PRECISION", mark="%s")
_MAKING = 0x63757465
"""The advisory lock under which one process makes the tables; "cute", so that it is nobody else's by chance."""
_KNOWN = "SELECT count(*) FROM pg_class WHERE relname = %s AND pg_table_is_visible(oid)"
_PAUSE_S = 0.2
_EXTRA = "Install it: pip install 'cutegen[postgres]'."
_FORM = "It has the form postgresql://user@host:port/database."
_SECRET = "Leave it out: PGPASSWORD and ~/.pgpass are read instead."

Made = TypeVar("Made")


def is_url(setting: str) -> bool:
    """Whether an archive's name is the URL of a database."""
    return setting.startswith(SCHEMES)


def require_usable(url: str) -> None:
    """Raise `UserError` for no URL, for one that holds a password, which run folders would keep, or without psycopg."""
    try:
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict
    except ImportError as error:
        told = f"The archive is a Postgres database, and {error.name} is not installed."
        raise UserError(told, _EXTRA) from error
    try:
        given = conninfo_to_dict(url)
    except ProgrammingError as error:
        raise UserError(f"The archive's URL is none: {_line(error)}.", _FORM) from error
    if any("password" in name for name in given):
        raise UserError("The archive's URL holds a password, and a run's folder keeps its settings.", _SECRET)


class InPostgres:
    """See `Place`. A database that is down or locked is waited for; a call that it broke off is made again."""

    def __init__(self, url: str, wait_s: float) -> None:
        require_usable(url)
        self._url = url
        self._wait_s = wait_s

    def put(self, run: str, rows: Sequence[Row]) -> int:
        """See `Place`."""
        clean = [tuple(_storable(value) for value in row) for row in rows]

        def written(cursor: Any) -> int:
            cursor.executemany(_SAID.put, clean)
            [held] = cursor.execute(_SAID.held, (run,)).fetchone().values()
            return int(held)

        return self._done(written)

    def fastest(self, target: str, most_chars: int, but: str, most: int) -> list[dict[str, Any]]:
        """See `Place`."""
        return self._done(lambda cursor: cursor.execute(_SAID.fastest, (target, most_chars, but, most)).fetchall())

    def moves(self, target: str, most_chars: int, but: str, most: int) -> list[dict[str, Any]]:
        """See `Place`."""
        asked = (target, most_chars, most_chars, but, most)
        return self._done(lambda cursor: cursor.execute(_SAID.moves, asked).fetchall())

    def _done(self, work: Callable[[Any], Made]) -> Made:
        """One transaction, begun anew while the database is away, as long as it is waited for."""
        from psycopg import Error, InterfaceError, OperationalError

        until = time.monotonic() + self._wait_s
        while True:
            try:
                return self._tried(work)
            except _AwayError as away:
                if time.monotonic() + _PAUSE_S > until:
                    told = f"The archive {self._url} was away for {self._wait_s:g} s: {_line(away.__cause__)}."
                    raise MachineError(told, REMEDY) from away
            except (OperationalError, InterfaceError) as error:
                raise self._explained(error) from error
            except Error as error:
                raise MachineError(f"The archive {self._url} cannot be used: {_line(error)}.", REMEDY) from error
            time.sleep(_PAUSE_S)

    def _tried(self, work: Callable[[Any], Made]) -> Made:
        """Raises `_AwayError` where nobody answers, or the connection broke; what psycopg raises of anything else."""
        from psycopg import InterfaceError, OperationalError
        from psycopg.errors import AdminShutdown, CrashShutdown

        connection = self._connection()
        try:
            with connection, connection.cursor() as cursor:
                for limit in ("lock_timeout", "statement_timeout"):
                    cursor.execute("SELECT set_config(%s, %s, true)", (limit, str(max(1, int(1e3 * self._wait_s)))))
                self._require_own(cursor)
                return work(cursor)
        except (OperationalError, InterfaceError) as error:
            if connection.broken or isinstance(error, AdminShutdown | CrashShutdown):
                raise _AwayError from error
            raise

    def _connection(self, *, again: bool = True) -> Any:
        """Raises `_AwayError`, or what psycopg raises of a database that is there and refuses."""
        from psycopg import OperationalError, connect
        from psycopg.rows import dict_row

        try:
            return connect(self._url, row_factory=dict_row, **self._patience())
        except OperationalError as error:
            if not _answers(self._url, self._wait_s):
                raise _AwayError from error
            if not again:
                raise
        return self._connection(again=False)  # what answers now may have been starting when it refused

    def _patience(self) -> dict[str, Any]:
        """So that a machine that has gone without a word is noticed, too; libpq waits two seconds at least."""
        return {
            "connect_timeout": max(2, round(self._wait_s)),
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 4,
            "tcp_user_timeout": int(1e3 * max(2, self._wait_s)),
        }

    def _require_own(self, cursor: Any) -> None:
        """Make the tables in a database that has none, whoever else does so; refuse those of another version."""
        if _version(cursor) is None:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", (_MAKING,))
            if _version(cursor) is None:
                cursor.execute(f"CREATE TABLE {_VERSION} (version INTEGER NOT NULL)")
                cursor.execute(f"INSERT INTO {_VERSION} VALUES (%s)", (SCHEMA,))
                cursor.execute(_SAID.make)
        if (version := _version(cursor)) != SCHEMA:
            raise UserError(of_another_schema(f"The archive {self._url}", version), OTHER)

    def _explained(self, error: Exception) -> MachineError:
        from psycopg.errors import LockNotAvailable, QueryCanceled

        if isinstance(error, LockNotAvailable | QueryCanceled):
            told = f"The archive {self._url} was locked by another program for {self._wait_s:g} s."
            return MachineError(told, REMEDY)
        return MachineError(f"The archive {self._url} cannot be used: {_line(error)}.", REMEDY)


class _AwayError(Exception):
    """Nobody answers at the database's address, or nobody any more."""


def _version(cursor: Any) -> object:
    """The schema's version; None where there is no archive yet."""
    # Read as a table: to_regclass answers from a cache, which may not know yet what another one made just now.
    [found] = cursor.execute(_KNOWN, (_VERSION,)).fetchone().values()
    if not found:
        return None
    row = cursor.execute(f"SELECT version FROM {_VERSION}").fetchone()
    return row["version"] if row else "none"


def _answers(url: str, wait_s: float) -> bool:
    """Whether a server is there and takes connections, so that what is wrong is not its absence."""
    from psycopg.conninfo import make_conninfo
    from psycopg.pq import PGconn, Ping

    found = PGconn.ping(make_conninfo(url, connect_timeout=max(2, round(wait_s))).encode())
    return found in (Ping.OK, Ping.NO_ATTEMPT)


def _storable(value: object) -> object:
    """Postgres keeps no NUL in a text; a kernel that holds one was refused anyway."""
    return value.replace("\0", "\N{REPLACEMENT CHARACTER}") if isinstance(value, str) else value


def _line(error: object) -> str:
    return " ".join(str(error).split()).rstrip(".")
