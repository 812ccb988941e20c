"""The archive: what comes nearest, who shares it, and what is said of a file that is none."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from run_samples import passed, task, wrong
from scripted_judge import softsign_task

from harness.nouns.candidate import Candidate
from harness.nouns.errors import MachineError, UserError
from harness.nouns.task import Task
from tools.archive import MOST_SOURCE_CHARS, SCHEMA, Archive, Entry

SOFTSIGN = softsign_task("torch.rand(64, 256)", "softsign")


def entry(source: str, speedup: float | None = 2.0) -> Entry:
    candidate = Candidate(source=source, target="cpu", author="proposer:one")
    verdict = passed(candidate, speedup) if speedup else wrong(candidate)
    return Entry(
        candidate=candidate, verdict=verdict, operator="mutation", move="m", parents=(), dollars=0.0, seconds=1.0
    )


def near(archive: Archive, to: Task = SOFTSIGN, **but: str) -> list[str]:
    return [each.source for each in archive.nearest(to, "cpu", 9, **but)]


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Another program writes, and does not end."""
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        yield


def test_the_fastest_kernels_of_the_nearest_tasks_come_first(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "a.sqlite")
    larger = softsign_task("torch.rand(640, 2560)", "larger")
    archive.put("one", task("gemm"), "here", [entry("far", 9.0)])
    archive.put("one", larger, "here", [entry("near", 2.0), entry("slower", 1.5), entry("broken", None)])
    archive.put("two", SOFTSIGN, "there", [entry("the same", 1.1), entry("x" * (MOST_SOURCE_CHARS + 1), 8.0)])
    assert near(archive) == ["the same", "near", "far"], "each task's fastest, right and not too long"
    assert near(archive, but="two") == ["near", "far"], "a run is not inspired by itself"
    assert archive.nearest(SOFTSIGN, "cuda", 9) == ()
    assert [each.device for each in archive.nearest(SOFTSIGN, "cpu", 1)] == ["there"]


def test_what_is_written_again_is_there_once(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "a.sqlite")
    for _ in range(2):
        archive.put("one", SOFTSIGN, "here", [entry("k")])
    with closing(sqlite3.connect(archive.path)) as found:
        assert found.execute("SELECT count(*), min(status) FROM kernels").fetchone() == (1, "passed")


def test_many_write_at_once_into_a_file_that_none_has_made(tmp_path: Path) -> None:
    def write(number: int) -> None:
        Archive(tmp_path / "new" / "a.sqlite").put(f"run {number}", SOFTSIGN, f"d{number}", [entry(f"k{number}")])

    with ThreadPoolExecutor(8) as writers:
        list(writers.map(write, range(16)))
    assert len(near(Archive(tmp_path / "new" / "a.sqlite"))) == 9


def test_rows_of_somebody_else_s_are_passed_over(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "a.sqlite")
    archive.put("one", SOFTSIGN, "here", [entry("good")])
    archive.put("two", softsign_task("torch.rand(8)", "other"), "a\nb", [entry("odd")])
    with closing(sqlite3.connect(archive.path)) as other, other:
        other.execute("UPDATE kernels SET operations = '{\"no\": 1}' WHERE run = 'two'")
    assert near(archive) == ["good"]


def test_a_locked_archive_is_waited_for_and_then_named(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "a.sqlite", wait_s=0.01)
    archive.put("one", SOFTSIGN, "here", [entry("k")])
    with locked(archive.path), pytest.raises(MachineError, match="locked by another program"):
        archive.put("two", SOFTSIGN, "here", [entry("k")])
    archive.put("two", SOFTSIGN, "here", [entry("k")])


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
            Archive(file).put("one", SOFTSIGN, "here", [entry("k")])
    assert {file: file.read_bytes() for file in before} == before
    with pytest.raises(MachineError, match="cannot be used"):
        Archive(tmp_path / "text" / "below").put("one", SOFTSIGN, "here", [entry("k")])
