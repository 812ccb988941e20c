"""Where a server keeps its threads, from which they go on after a kill: one SQLite file, or a Postgres database."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiosqlite
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from graph.runs.store import BUSY_S, PlainSerializer
from harness.nouns.errors import MachineError

PLACE = "CUTEGEN_THREADS"
DEFAULT = ".langgraph_api/cutegen.sqlite"
"""Beside what `langgraph dev` itself keeps, in the folder that it is started in."""
GONE_S = 60.0
"""A step waits so long for a database that has gone away: one that is started anew is back by then."""
MOST_CONNECTIONS = 20


@asynccontextmanager
async def threads() -> AsyncIterator[BaseCheckpointSaver[str]]:
    """The checkpoints, where $CUTEGEN_THREADS says. Nothing but our nouns is built from them. Raises `MachineError`."""
    place = os.environ.get(PLACE) or DEFAULT
    kept = _in_postgres(place) if place.startswith(("postgres://", "postgresql://")) else _in_file(Path(place))
    async with kept as saver:
        yield saver


@asynccontextmanager
async def _in_file(file: Path) -> AsyncIterator[BaseCheckpointSaver[str]]:
    await asyncio.to_thread(file.parent.mkdir, parents=True, exist_ok=True)
    async with aiosqlite.connect(file, timeout=BUSY_S) as connection:
        saver = AsyncSqliteSaver(connection, serde=PlainSerializer())
        await saver.setup()
        yield saver


@asynccontextmanager
async def _in_postgres(url: str) -> AsyncIterator[BaseCheckpointSaver[str]]:
    try:
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
        from psycopg import AsyncConnection, Error
        from psycopg.rows import dict_row
        from psycopg_pool import AsyncConnectionPool, PoolTimeout
    except ImportError as error:
        raise MachineError(f"{PLACE} names a Postgres database, and {error.name} is not installed.", _EXTRA) from error
    # The saver's own form of a connection; each is tried before it is used, so that none of before a restart is.
    pool: AsyncConnectionPool[AsyncConnection[dict[str, Any]]] = AsyncConnectionPool(
        url,
        kwargs={"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row},
        min_size=1,
        max_size=MOST_CONNECTIONS,
        timeout=GONE_S,
        check=AsyncConnectionPool.check_connection,
        open=False,
    )
    async with pool:
        saver = AsyncPostgresSaver(pool, serde=PlainSerializer())
        try:
            await saver.setup()
        except (Error, PoolTimeout) as error:
            raise MachineError(f"The database that {PLACE} names cannot be used: {error}.", _REMEDY) from error
        yield saver


_EXTRA = "Install it: pip install 'cutegen[postgres]'."
_REMEDY = "Does it run, and may this user make tables there? Leave the variable out to keep threads in a file."
