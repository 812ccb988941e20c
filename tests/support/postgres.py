"""A Postgres server of a test's own."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from command_line import wait_until
from psycopg import sql


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

    def fresh(self, name: str) -> str:
        """The URL of a new database of that name, in place of one that a test left."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return self.url.replace("/postgres?", f"/{name}?")

    def start(self) -> None:
        options = f"-k {self.folder} -c listen_addresses='' -c fsync=off"
        log = str(self.folder / "log")
        self._command("pg_ctl", "start", "-w", "-D", str(self.folder / "data"), "-o", options, "-l", log)

    def kill(self) -> None:
        """Returns when it has ended, with every connection: its file goes last."""
        file = self.folder / "data" / "postmaster.pid"
        os.kill(int(file.read_text().split()[0]), signal.SIGQUIT)
        wait_until(lambda: not file.exists(), "the end of the database")

    def _command(self, program: str, *arguments: str) -> None:
        found = shutil.which(program)
        assert found is not None
        quiet = {"stdout": subprocess.DEVNULL, "stdin": subprocess.DEVNULL}
        subprocess.run([found, *arguments], check=True, user=self._user, cwd=self.folder, timeout=120, **quiet)  # type: ignore[call-overload]


@contextmanager
def served() -> Iterator[Database]:
    """One that runs meanwhile; the test is skipped where there is none on this machine."""
    if not shutil.which("initdb") or not shutil.which("pg_ctl"):
        pytest.skip("there is no Postgres server on this machine: initdb and pg_ctl are not found")
    with tempfile.TemporaryDirectory(prefix="pg", dir="/tmp") as folder:  # a socket's path has 107 characters at most
        held = Database(Path(folder))
        try:
            yield held
        finally:
            held.kill()
