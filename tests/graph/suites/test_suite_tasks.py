"""A suite's files: found, numbered, chosen by id, shrunk."""

import hashlib
import math
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph.runs.suite_record import SuiteTask
from graph.suites.folder import create_suite, reopen_suite
from graph.suites.tasks import load_suite, scaled, scaled_size, select_ids
from harness.nouns.errors import UserError
from knowledge.suites import bundled
from nodes.settings import Settings


def folder_of(tmp_path: Path, *names: str, text: str = "x = 1\n") -> Path:
    for name in names:
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("suite", "digest"),
    [("level1", "9daef6cd4192fa08"), ("robust", "34225d0421ac2b9c"), ("sixteen_bit", "d7ac53ff5a9a6207")],
)
def test_a_bundled_suites_texts_are_those_of_earlier_runs(suite: str, digest: str) -> None:
    name, tasks = load_suite(suite)
    assert name == suite
    assert [task.name for task in tasks] == list(bundled.tasks(suite) or ())
    assert hashlib.sha256("".join(task.source for task in tasks).encode()).hexdigest()[:16] == digest


def test_a_files_number_is_its_id(tmp_path: Path) -> None:
    name, tasks = load_suite(str(folder_of(tmp_path, "10_last.py", "2_first.py", "__init__.py", "notes.md")))
    assert name == tmp_path.name
    assert [(task.id, task.name) for task in tasks] == [(2, "2_first"), (10, "10_last")]


@pytest.mark.parametrize("names", [("b.py", "a.py"), ("1_b.py", "1_a.py"), ("b.py", "7_a.py")])
def test_files_without_numbers_of_their_own_are_counted(names: tuple[str, ...], tmp_path: Path) -> None:
    _, tasks = load_suite(str(folder_of(tmp_path, *names)))
    assert [task.id for task in tasks] == [1, 2]
    assert [task.name for task in tasks] == sorted(name.removesuffix(".py") for name in names)


def test_a_folder_without_tasks_and_no_folder_at_all(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no task file"):
        load_suite(str(tmp_path))
    with pytest.raises(UserError, match="no suite level9") as caught:
        load_suite("level9")
    assert "level1" in caught.value.remedy


def test_ids_are_read_as_people_write_them() -> None:
    known = (1, 2, 3, 7, 9)
    assert select_ids("7,1-2", known) == (1, 2, 7)
    assert select_ids(" 3 - 8 ", known) == (3, 7)
    with pytest.raises(UserError, match="id 4-6") as caught:
        select_ids("1,4-6", known)
    assert "1-3, 7, 9" in caught.value.remedy
    for wrong in ("", "a", "1-", "-2", "1--2", "1;2"):
        with pytest.raises(UserError, match="names no ids"):
            select_ids(wrong, known)


@pytest.mark.parametrize(
    ("size", "scale", "expected"),
    [
        (4096, 0.5, 2048),
        (4096, 0.1, 384),  # 409.6, to a multiple of 64
        (8205, 0.5, 4103),  # odd stays odd
        (5921, 2.0, 11843),
        (768, 0.01, 8),  # 7.68: a multiple of the largest power of two below it, 4
        (3, 0.001, 1),
        (64, 0.001, 1),
        (393216, 1 / 16, 24576),
    ],
)
def test_sizes_shrink_and_stay_what_they_were(size: int, scale: float, expected: int) -> None:
    assert scaled_size(size, scale) == expected


@given(size=st.integers(1, 1 << 24), scale=st.floats(1e-6, 8))
def test_any_size_keeps_its_kind_and_comes_near_its_share(size: int, scale: float) -> None:
    found = scaled_size(size, scale)
    assert found >= 1
    assert found % 2 == size % 2 or (size % 2 == 0 and found == 1), "odd stays odd, and 1 is the end of all"
    aligned = math.gcd(size, 64)
    while aligned > 1 and size * scale < aligned:
        aligned //= 2
    assert found % aligned == 0, "as aligned as it was, as far as it reaches"
    assert abs(found - size * scale) <= max(aligned / 2, 1) + 1e-6 * found
    assert scaled_size(size, 1.0) == size


@given(st.lists(st.integers(0, 60), min_size=1, unique=True), st.data())
def test_any_ids_are_chosen_in_their_own_order(known: list[int], data: st.DataObject) -> None:
    low, high = sorted((data.draw(st.sampled_from(known)), data.draw(st.sampled_from(known))))
    more = data.draw(st.sampled_from(known))
    wanted = {number for number in known if low <= number <= high} | {more}
    for text in (f"{low}-{high},{more}", f" {more} , {low} - {high}", f"{low}-{high},{more},{more}"):
        assert select_ids(text, tuple(known)) == tuple(number for number in known if number in wanted)


def test_every_number_of_sizes_is_scaled_and_no_other() -> None:
    source = '\x0c\n# \u2028\nSIZES = {"é": 128, "n": 64,\n    "k": 33}  # 128\nother = 128\n'
    wanted = '\x0c\n# \u2028\nSIZES = {"é": 64, "n": 32,\n    "k": 17}  # 128\nother = 128\n'
    assert scaled(source, 0.5, "f") == wanted


@pytest.mark.parametrize("source", ["n = 4\n", 'SIZES = {"n": 2.5}\n', "SIZES = sizes()\n", "SIZES = {\n"])
def test_a_file_without_sizes_cannot_be_scaled(source: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"3_a\.py has no SIZES"):
        load_suite(str(folder_of(tmp_path, "3_a.py", text=source)), scale=0.5)


def test_a_scale_of_one_changes_nothing() -> None:
    _, tasks = load_suite("level1", ids="8")
    assert 'SIZES = {"m": 8205, "k": 2949, "n": 5921}' in tasks[0].source
    _, halved = load_suite("level1", ids="8", scale=0.5)
    assert 'SIZES = {"m": 4103, "k": 1475, "n": 2961}' in halved[0].source


def test_only_files_are_tasks(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "2 a task ü.py", "1_a.py", ".hidden.py", "...py", "notes.txt", "README")
    (folder / "3_folder.py").mkdir()
    _, tasks = load_suite(str(folder))
    assert [(task.id, task.name) for task in tasks] == [(1, "1_a"), (2, "2 a task ü")]


@pytest.mark.parametrize("what", ["a pipe", "a link to nowhere", "a link to itself", "a device"])
def test_what_cannot_be_read_as_a_file_is_named_and_not_waited_for(what: str, tmp_path: Path) -> None:
    odd = folder_of(tmp_path, "1_a.py") / "2_odd.py"
    if what == "a pipe":
        os.mkfifo(odd)
    else:
        odd.symlink_to({"a link to nowhere": "nowhere", "a link to itself": odd, "a device": "/dev/zero"}[what])
    with pytest.raises(UserError, match=r"2_odd\.py is no file"):
        load_suite(str(tmp_path))


def test_a_file_of_no_text_is_named(tmp_path: Path) -> None:
    (folder_of(tmp_path, "1_a.py") / "2_b.py").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match=r"2_b\.py is no UTF-8 text"):
        load_suite(str(tmp_path))


def test_two_files_that_would_share_a_runs_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="would both be called 1 a"):
        load_suite(str(folder_of(tmp_path, "1 a.py", "1  a.py")))


@pytest.mark.parametrize("name", ["", ".", "..", "../../elsewhere", "/tmp", "a/b", "a\0b/"])
def test_a_tasks_run_lies_within_the_suites_folder(name: str) -> None:
    with pytest.raises(ValueError, match="a folder within the suite's"):
        SuiteTask(id=1, name=name, source="")


def test_an_edited_suite_neither_leaves_its_folder_nor_turns_isolation_off(tmp_path: Path) -> None:
    task = SuiteTask(id=1, name="1_a", source="x = 1\n")
    folder, _ = create_suite(tmp_path / "suite", name="mine", tasks=(task,), scale=1.0, settings=Settings())
    written = folder.manifest_file.read_text(encoding="utf-8")
    for old, new, told in (
        ('"1_a"', '"../1_a"', "not a suite of this version"),
        ('"isolation": "auto"', '"isolation": "none"', "without isolation"),
    ):
        assert old in written
        folder.manifest_file.write_text(written.replace(old, new), encoding="utf-8")
        with pytest.raises(UserError, match=told):
            reopen_suite(folder.path)
    folder.manifest_file.write_text(written, encoding="utf-8")
    assert reopen_suite(folder.path)[1].tasks == (task,)
