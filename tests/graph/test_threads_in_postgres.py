"""A server's threads in a Postgres database: they go on in another process, and through a restart of the database."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.types import Command
from postgres import Database, served
from psycopg_pool import PoolTimeout
from scripted_judge import Scripted
from softsign_script import RIGHT, SOURCE, written

from graph.server.checkpoints import PLACE, threads
from graph.workflow import build_graph
from harness.nouns.errors import MachineError
from nodes.models.manual import ManualModel
from nodes.settings import Settings
from nodes.state import RunState

ON_A_THREAD: RunnableConfig = {"configurable": {"thread_id": "one"}}
SETTINGS = Settings(max_depth=0, target="cpu", sanitize=False)


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    with served() as held:
        yield held


async def taken(given: Any) -> dict[str, Any]:
    """One step of a server's life: the store is opened, a run goes as far as it can, the store is closed."""
    async with threads() as saver:
        graph = build_graph(lambda spec, options: ManualModel(), open_judge=Scripted()).compile(checkpointer=saver)
        return dict(await graph.ainvoke(given, ON_A_THREAD, context=SETTINGS))


def test_a_thread_waits_through_a_restart_of_the_database_and_is_answered(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PLACE, database.url)
    waiting = asyncio.run(taken({"source": SOURCE, "name": "softsign"}))
    assert waiting["__interrupt__"][0].value["role"] == "generator"

    async def answer() -> RunState:
        async with threads() as saver:
            graph = build_graph(lambda spec, options: ManualModel(), open_judge=Scripted()).compile(checkpointer=saver)
            assert (await graph.aget_state(ON_A_THREAD)).next == ("generator",)
            await asyncio.to_thread(database.kill)  # with a connection to it that is held
            await asyncio.to_thread(database.start)
            ended = await graph.ainvoke(Command(resume=written(RIGHT)), ON_A_THREAD, context=SETTINGS)
            return RunState.model_validate(ended)

    ended = asyncio.run(answer())
    assert ended.best is not None and ended.best.candidate.source == RIGHT
    assert [step.agent for step in ended.history] == ["generator", "tester"]


def test_a_step_fails_while_the_database_stays_away_and_the_thread_goes_on_once_it_is_back(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PLACE, database.fresh("away"))

    async def live() -> tuple[str, RunState]:
        async with threads() as saver:
            graph = build_graph(lambda spec, options: ManualModel(), open_judge=Scripted()).compile(checkpointer=saver)
            await graph.ainvoke({"source": SOURCE, "name": "softsign"}, ON_A_THREAD, context=SETTINGS)
            pool: Any = vars(saver)["conn"]
            await asyncio.to_thread(database.kill)
            pool.timeout, patience = 0.2, pool.timeout
            with pytest.raises(PoolTimeout) as gone:
                await graph.ainvoke(Command(resume=written(RIGHT)), ON_A_THREAD, context=SETTINGS)
            pool.timeout = patience
            await asyncio.to_thread(database.start)
            ended = await graph.ainvoke(Command(resume=written(RIGHT)), ON_A_THREAD, context=SETTINGS)
            return str(gone.value), RunState.model_validate(ended)

    told, ended = asyncio.run(live())
    assert "couldn't get a connection" in told
    assert ended.best is not None and ended.best.candidate.source == RIGHT


def test_a_database_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(PLACE, f"postgresql://cutegen@/postgres?host={tmp_path}")
    monkeypatch.setattr("graph.server.checkpoints.GONE_S", 0.2)
    with pytest.raises(MachineError, match="The database that CUTEGEN_THREADS names cannot be used"):
        asyncio.run(taken({"source": SOURCE}))
