"""A server's threads in a Postgres database: they go on in another process, and through a restart of the database."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.types import Command
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


class Database:
    """A Postgres of its own, reached by a socket in its folder; it refuses to be run by root."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._user = folder, "nobody" if os.getuid() == 0 else None
        if self._user:
            os.chown(folder, pwd.getpwnam(self._user).pw_uid, -1)
        self._command("initdb", "-U", "cutegen", "--auth=trust", "--no-sync", "-D", str(folder / "data"))
        self.start()

    @property
    def url(self) -> str:
        return f"postgresql://cutegen@/postgres?host={self.folder}"

    def start(self) -> None:
        options = f"-k {self.folder} -c listen_addresses='' -c fsync=off"
        log = str(self.folder / "log")
        self._command("pg_ctl", "start", "-w", "-D", str(self.folder / "data"), "-o", options, "-l", log)

    def kill(self) -> None:
        os.kill(int((self.folder / "data" / "postmaster.pid").read_text().split()[0]), signal.SIGQUIT)

    def _command(self, program: str, *arguments: str) -> None:
        found = shutil.which(program)
        assert found is not None
        quiet = {"stdout": subprocess.DEVNULL, "stdin": subprocess.DEVNULL}
        subprocess.run([found, *arguments], check=True, user=self._user, cwd=self.folder, timeout=120, **quiet)  # type: ignore[call-overload]


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    if not shutil.which("initdb") or not shutil.which("pg_ctl"):
        pytest.skip("there is no Postgres server on this machine: initdb and pg_ctl are not found")
    with tempfile.TemporaryDirectory(prefix="pg", dir="/tmp") as folder:  # a socket's path has 107 characters at most
        held = Database(Path(folder))
        try:
            yield held
        finally:
            held.kill()


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


def test_a_database_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(PLACE, f"postgresql://cutegen@/postgres?host={tmp_path}")
    monkeypatch.setattr("graph.server.checkpoints.GONE_S", 0.2)
    with pytest.raises(MachineError, match="The database that CUTEGEN_THREADS names cannot be used"):
        asyncio.run(taken({"source": SOURCE}))
