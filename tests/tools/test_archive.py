"""The archive, in a file and in a database: what comes nearest, who shares it, what is said where it fails."""

from __future__ import annotations

import secrets
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import psycopg
import pytest
from postgres import Database, served
from run_samples import passed, task, wrong
from scripted_judge import softsign_task

from harness.nouns.candidate import Candidate
from harness.nouns.errors import MachineError, UserError
from harness.nouns.task import Task
from tools.archive import MOST_SOURCE_CHARS, Archive, Entry, settled
from tools.archives.in_file import SCHEMA
from tools.lessons import lessons

SOFTSIGN = softsign_task("torch.rand(64, 256)", "softsign")


def entry(source: str, speedup: float | None = 2.0) -> Entry:
    candidate = Candidate(source=source, target="cpu", author="proposer:one")
    verdict = passed(candidate, speedup) if speedup else wrong(candidate)
    return Entry(
        candidate=candidate, verdict=verdict, operator="mutation", move="m", parents=(), dollars=0.0, seconds=1.0
    )


def near(place: str, to: Task = SOFTSIGN, **but: str) -> list[str]:
    return [each.source for each in opened(place).nearest(to, "cpu", 9, **but)]


def opened(place: str, wait_s: float | None = None) -> Archive:
    archive = Archive.named(place, wait_s)
    assert archive is not None
    return archive


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    with served() as held:
        yield held


@pytest.fixture(params=["file", "database"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where there is no archive yet."""
    if request.param == "file":
        return str(tmp_path / "new" / "a.sqlite")
    held: Database = request.getfixturevalue("database")
    return held.fresh(f"a{secrets.token_hex(4)}")


def connected(place: str) -> AbstractContextManager[sqlite3.Connection | psycopg.Connection]:
    if place.startswith("postgres"):
        return psycopg.connect(place, autocommit=True)
    return closing(sqlite3.connect(place, isolation_level=None))


def table(place: str) -> str:
    return "cutegen_kernels" if place.startswith("postgres") else "kernels"


@contextmanager
def locked(place: str) -> Iterator[None]:
    """Another program writes, and does not end."""
    with connected(place) as other:
        if isinstance(other, psycopg.Connection):
            other.execute("BEGIN")
            other.execute(f"LOCK TABLE {table(place)}".encode())
        else:
            other.execute("BEGIN EXCLUSIVE")
        yield
        other.execute("ROLLBACK")


def test_the_fastest_kernels_of_the_nearest_tasks_come_first(place: str) -> None:
    archive = opened(place)
    larger = softsign_task("torch.rand(640, 2560)", "larger")
    archive.put("one", task("gemm"), "here", [entry("far", 9.0)])
    archive.put("one", larger, "here", [entry("near", 2.0), entry("slower", 1.5), entry("broken", None)])
    archive.put("two", SOFTSIGN, "there", [entry("the same", 1.1), entry("x" * (MOST_SOURCE_CHARS + 1), 8.0)])
    assert near(place) == ["the same", "near", "far"], "each task's fastest, right and not too long"
    assert near(place, but="two") == ["near", "far"], "a run is not inspired by itself"
    assert archive.nearest(SOFTSIGN, "cuda", 9) == ()
    assert [each.device for each in archive.nearest(SOFTSIGN, "cpu", 1)] == ["there"]


def test_what_is_written_again_is_there_once_as_it_was_written_last(place: str) -> None:
    assert opened(place).put("one", SOFTSIGN, "here", [entry("k", 1.5), entry("nul \0 byte", None)]) == 2
    assert opened(place).put("one", SOFTSIGN, "here", [entry("k", 2.5)]) == 2
    assert [each.speedup for each in opened(place).nearest(SOFTSIGN, "cpu", 9)] == [2.5]


def test_many_write_at_once_into_an_archive_that_none_has_made(place: str) -> None:
    def write(number: int) -> None:
        opened(place).put(f"run {number}", SOFTSIGN, f"d{number}", [entry(f"k{number}")])

    with ThreadPoolExecutor(8) as writers:
        list(writers.map(write, range(16)))
    with connected(place) as found:
        assert found.execute(f"SELECT count(*) FROM {table(place)}").fetchone() == (16,)  # type: ignore[arg-type]


def test_rows_of_somebody_else_s_are_passed_over(place: str) -> None:
    archive = opened(place)
    archive.put("one", SOFTSIGN, "here", [entry("good")])
    archive.put("two", softsign_task("torch.rand(8)", "other"), "a\nb", [entry("odd")])
    with connected(place) as other:
        other.execute(f"UPDATE {table(place)} SET operations = '{{\"no\": 1}}' WHERE run = 'two'")  # type: ignore[arg-type]
    assert near(place) == ["good"]


def test_a_locked_archive_is_waited_for_and_then_named(place: str) -> None:
    opened(place).put("one", SOFTSIGN, "here", [entry("k")])
    with locked(place), pytest.raises(MachineError, match=r"locked by another program for 0\.05 s"):
        opened(place, wait_s=0.05).put("two", SOFTSIGN, "here", [entry("k")])
    opened(place).put("two", SOFTSIGN, "here", [entry("k")])


_WRITER = """
import sys
sys.path[:0] = sys.argv[2:]
from test_archive import SOFTSIGN, entry, opened
for number in range(10_000):
    opened(sys.argv[1]).put("one", SOFTSIGN, "here", [entry(f"{number} {half}") for half in (0, 1)])
    print(number, flush=True)
"""


def test_a_writer_that_is_killed_has_lost_nothing_that_it_was_told_is_there(place: str) -> None:
    paths = [path for path in sys.path if path]
    with subprocess.Popen([sys.executable, "-c", _WRITER, place, *paths], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        for _ in range(3):
            told = int(writer.stdout.readline())
        writer.kill()
    with connected(place) as found:
        [held] = found.execute(f"SELECT count(*) FROM {table(place)}").fetchone() or (0,)  # type: ignore[arg-type]
    assert held >= 2 * (told + 1) and held % 2 == 0, "whole transactions"
    opened(place).put("two", SOFTSIGN, "here", [entry("k")])


def test_a_database_that_is_started_anew_meanwhile_is_waited_for(database: Database) -> None:
    place = database.fresh("restarted")
    opened(place).put("one", SOFTSIGN, "here", [entry("before")])
    database.kill()
    with pytest.raises(MachineError, match=r"was away for 0\.01 s"):
        opened(place, wait_s=0.01).put("one", SOFTSIGN, "here", [entry("too soon")])
    starting = threading.Thread(target=database.start)
    starting.start()
    assert opened(place, wait_s=60).put("one", SOFTSIGN, "here", [entry("after")]) == 2
    starting.join()


def test_of_a_database_that_is_another_one_is_said_what_is_wrong(database: Database) -> None:
    with pytest.raises(MachineError, match=r'cannot be used: .*"nobodys" does not exist'):
        opened(database.url.replace("/postgres?", "/nobodys?")).put("one", SOFTSIGN, "here", [entry("k")])
    place = database.fresh("later")
    opened(place).put("one", SOFTSIGN, "here", [entry("k")])
    with connected(place) as other:
        other.execute("UPDATE cutegen_archive SET version = 99")
    with pytest.raises(UserError, match="is of schema 99; this version"):
        opened(place).put("one", SOFTSIGN, "here", [entry("another")])
    with connected(place) as other:
        assert other.execute("SELECT count(*) FROM cutegen_kernels").fetchone() == (1,), "left as it was"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://me:secret@host/db", "holds a password"),
        ("postgresql://me@host/db?password=secret", "holds a password"),
        ("postgresql://me@host/db?sslpassword=secret", "holds a password"),
        ("postgresql://me@host/db?colour=red", "is none: .*colour"),
    ],
)
def test_a_url_with_a_password_is_refused_before_it_is_written_down(url: str, said: str) -> None:
    for take in (settled, Archive.named):
        with pytest.raises(UserError, match=said) as refused:
            take(url)
        assert "secret" not in str(refused.value)


def test_without_its_library_a_url_is_refused_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(UserError, match="psycopg is not installed"):
        settled("postgresql://me@host/db")


def test_what_a_run_keeps_of_the_setting_means_the_same_from_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    assert [settled(each) for each in ("", "none", "a.sqlite")] == ["", "none", "/a.sqlite"]
    assert settled("postgresql://me@host/db") == "postgresql://me@host/db"


def test_a_file_that_is_no_such_archive_is_refused_and_left_alone(tmp_path: Path) -> None:
    text, later, foreign = tmp_path / "text", tmp_path / "later", tmp_path / "foreign"
    text.write_text("no database, and long enough to be read as the header of one: " * 4, encoding="utf-8")
    with closing(sqlite3.connect(later)) as made:
        made.execute(f"PRAGMA user_version = {SCHEMA + 1}")
    with closing(sqlite3.connect(foreign)) as made, made:
        made.execute("CREATE TABLE theirs (x)")
    before = {file: file.read_bytes() for file in (text, later, foreign)}
    for file, words in ((text, "is no archive"), (later, f"of schema {SCHEMA + 1}"), (foreign, "is no archive")):
        with pytest.raises(UserError, match=words):
            opened(str(file)).put("one", SOFTSIGN, "here", [entry("k")])
    assert {file: file.read_bytes() for file in before} == before
    with pytest.raises(UserError, match="is a folder, no archive"):
        opened(str(tmp_path)).put("one", SOFTSIGN, "here", [entry("k")])
    with pytest.raises(MachineError, match="cannot be used"):
        opened(str(tmp_path / "text" / "below")).put("one", SOFTSIGN, "here", [entry("k")])


# -- Lessons: what single moves were worth ----------------------------------------------------------------------------


def moved(source: str, parent: Entry, move: str, speedup: float | None) -> Entry:
    return entry(source, speedup).model_copy(update={"move": move, "parents": (parent.candidate.digest,)})


def taught(place: str, *, device: str = "a cpu", but: str = "") -> dict[str, str]:
    found = lessons(opened(place), SOFTSIGN, "cpu", device, but=but)
    return {each.said: each.diff for each in found}


def test_moves_of_other_runs_are_lessons_with_what_they_changed(place: str) -> None:
    base = entry("int base;\nint same;\n", 2.0)
    made = [
        moved("int base; // longer\nint wide;\n", base, "wider", 3.0), moved("int c;\n", base, "narrow", 1.0),
        moved("int d;\n", base, "wild", None), moved("int e;\n", base, "same", 2.0), moved("int f;\n", base, "", 9.0),
    ]  # fmt: skip
    opened(place).put("run", SOFTSIGN, "a cpu", [base, *made])
    assert taught(place) == {
        "wider: 1.50x (elementwise, a cpu)": "-int same;\n+int wide;",
        "narrow: 0.50x (elementwise, a cpu)": "-int base;\n-int same;\n+int c;",
        "wild: failed (accuracy) (elementwise, a cpu)": "-int base;\n-int same;\n+int d;",
    }
    assert taught(place, but="run") == {}


def test_this_device_comes_first_and_a_long_difference_is_cut(tmp_path: Path) -> None:
    place = str(tmp_path / "a.sqlite")
    base = entry("int base;\n", 2.0)
    for run, device, move in (("one", "another", "far"), ("two", "a cpu", "here")):
        long = "".join(f"int {move}{line};\n" for line in range(40))
        opened(place).put(run, SOFTSIGN, device, [base, moved(long, base, move, 4.0)])
    found = taught(place)
    assert [said.partition(":")[0] for said in found] == ["here", "far"]
    assert all(diff.endswith("(29 more lines)") for diff in found.values())


def test_a_row_that_somebody_else_wrote_is_no_lesson(tmp_path: Path) -> None:
    place = tmp_path / "a.sqlite"
    base = entry("int base;\n", 2.0)
    opened(str(place)).put("run", SOFTSIGN, "a cpu", [base, moved("int b;\n", base, "wider", 4.0)])
    with closing(sqlite3.connect(place)) as connection, connection:
        connection.execute("UPDATE kernels SET verdict = '{}' WHERE move = 'wider'")
    assert taught(str(place)) == {}
