"""Where a server keeps its threads: one SQLite file, from which they go on after a kill."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiosqlite
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from graph.runs.store import BUSY_S, PlainSerializer

FILE = "CUTEGEN_THREADS"
DEFAULT = ".langgraph_api/cutegen.sqlite"
"""Beside what `langgraph dev` itself keeps, in the folder that it is started in."""


@asynccontextmanager
async def threads() -> AsyncIterator[AsyncSqliteSaver]:
    """The checkpoints, in the file that $CUTEGEN_THREADS names. Nothing but our nouns is built from them."""
    file = Path(os.environ.get(FILE) or DEFAULT)
    await asyncio.to_thread(file.parent.mkdir, parents=True, exist_ok=True)
    async with aiosqlite.connect(file, timeout=BUSY_S) as connection:
        saver = AsyncSqliteSaver(connection, serde=PlainSerializer())
        await saver.setup()
        yield saver
