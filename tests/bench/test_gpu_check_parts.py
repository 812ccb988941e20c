"""The parts of the check of a GPU machine, each over a folder, with what it finds stored before the next begins."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from report_records import candidate, full_record, passed, roof
from rich.console import Console
from suite_records import row, suite_record

from bench.gpu_check import Check
from bench.gpu_model import FailedTest, GpuResult, GpuTests
from bench.gpu_tests import counted
from harness.machine.gpu import Gpu
from harness.nouns.errors import MachineError
from nodes.state import Best, TaskInput

GPU = Gpu("GPU-6a1f", "NVIDIA H200", (9, 0), "580.65.06")


def check_of(folder: Path, minutes: float = 5) -> Check:
    return Check(folder, Console(quiet=True), GPU, time.monotonic() + 60 * minutes)


def stored(folder: Path) -> GpuResult:
    return GpuResult.model_validate_json((folder / "gpu-check.json").read_bytes())


def no_room() -> None:
    raise MachineError("There is no room.", "Make some.")


def mistaken() -> None:
    raise LookupError("nobody home")


def test_a_part_that_fails_is_a_sentence_and_the_others_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check, done = check_of(tmp_path / "out"), []
    check.part("first", lambda: done.append(1))
    check.part("full", no_room)
    check.part("odd", mistaken)
    check.part("last", lambda: done.append(2))
    assert done == [1, 2]
    assert check.result.problems == (
        "full: There is no room. Make some.",
        "odd: a defect of cutegen's own: LookupError: nobody home",
    )
    assert stored(tmp_path / "out") == check.result
    assert "nobody home" in capsys.readouterr().err, "a defect is told in full"


def test_what_would_begin_too_late_does_not_begin(tmp_path: Path) -> None:
    late, done = check_of(tmp_path, minutes=-1), []
    assert late.minutes_left == 0
    late.part("tests", lambda: done.append(1))
    assert (done, late.result.problems) == ([], ("tests: the minutes were over before it began.",))
    assert 4.9 < check_of(tmp_path).minutes_left <= 5


def test_the_same_command_goes_on_with_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["x", "--minutes", "1"])
    first = check_of(tmp_path)
    first.keep(tests=GpuTests(passed=3, failed=0, skipped=1, seconds=2.0), problems=("suite: no.",))
    again = check_of(tmp_path)
    assert again.result.tests == first.result.tests
    assert again.result.problems == (), "what went wrong before is tried again"
    assert again.result.commands == ("python -m bench.gpu_check --minutes 1",), "once"
    assert again.result.measured_at == first.result.measured_at
    monkeypatch.setattr("sys.argv", ["x", "--depth", "a b"])
    assert check_of(tmp_path).result.commands[1:] == ("python -m bench.gpu_check --depth 'a b'",)
    assert stored(tmp_path).driver == "580.65.06"


@pytest.mark.parametrize("text", ["", "{", "[]", json.dumps({"schema_version": 2})])
def test_a_result_that_cannot_be_read_is_begun_anew(tmp_path: Path, text: str) -> None:
    (tmp_path / "gpu-check.json").write_text(text, encoding="utf-8")
    assert check_of(tmp_path).result.tests is None
    assert stored(tmp_path).machine.cpu


def test_what_was_measured_is_not_measured_again(tmp_path: Path) -> None:
    console = Console(width=100, record=True)
    check = Check(tmp_path, console, GPU, time.monotonic() + 60)
    failed = GpuTests(
        passed=3, failed=2, skipped=1, seconds=61.4, failures=(FailedTest(test="c::[d]", said="E  1\nE  2"),)
    )
    check.keep(tests=failed, phases={"build": 7.0, "in all": 9.5})
    check.part("tests", check.tests)  # in earnest they would take minutes, and a GPU
    check.part("phases", lambda: check.phases(3))
    text = console.export_text()
    assert "3 passed, 2 failed, 1 skipped\nc::[d]\n  E  1\n  E  2\n" in text
    assert "build: 7.00 s" in text and "in all: 9.50 s" in text
    assert check.result.problems == ()


def suite_in(folder: Path, *numbers: int, without: tuple[int, ...] = ()) -> Check:
    """A check whose suite has these tasks, their runs' records beside it."""
    rows = tuple(row(number, None if number in without else 1.0 + number / 10) for number in numbers)
    check = check_of(folder)
    check.keep(suite=suite_record(*rows))
    for each in rows:
        place = folder / "suite" / each.name
        place.mkdir(parents=True)
        kernel = candidate(f"// {each.name}", "playbook")
        best = Best(candidate=kernel, verdict=passed(kernel, 1.5), profile=roof(float(each.id)))
        record = full_record().model_copy(update={"best": best, "name": each.name})
        (place / "record.json").write_text(record.model_dump_json(), encoding="utf-8")
    return check


@pytest.mark.parametrize(
    ("numbers", "without", "shown"),
    [
        ((1, 5, 24, 25), (), [1, 24, 25]),
        ((1, 5, 24, 25), (24,), [1, 25]),
        ((5, 8, 12, 14), (5,), [8, 12, 14]),
        ((5, 8, 12, 14, 23), (), [5, 8, 12]),
        ((1, 24), (1, 24), []),
    ],
)
def test_three_kernels_profiles_are_shown(
    tmp_path: Path, numbers: tuple[int, ...], without: tuple[int, ...], shown: list[int]
) -> None:
    check = suite_in(tmp_path, *numbers, without=without)
    check.part("profiles", check.profiles)
    assert check.result.problems == ()
    assert [each.task for each in check.result.profiles] == [f"task{number}" for number in shown]
    for number, each in zip(shown, check.result.profiles, strict=True):
        assert (each.speedup, f"time        {number} ms a call" in each.text) == (1.0 + number / 10, True)
    for record in tmp_path.glob("suite/*/record.json"):
        record.unlink()
    check.part("profiles", check.profiles)
    assert check.result.problems == (), "they are there: the records are not asked again"


def test_without_a_suite_there_is_nothing_to_profile(tmp_path: Path) -> None:
    check = check_of(tmp_path)
    check.part("profiles", check.profiles)
    assert (check.result.profiles, check.result.problems) == ((), ())


def test_the_seconds_to_a_verdict_are_those_of_the_suites_own_product(tmp_path: Path) -> None:
    task, kernel = suite_in(tmp_path, 5, 1)._gemm()
    assert isinstance(task, TaskInput)
    assert "SIZES" in task.source and task.name.startswith("01_")
    assert kernel == "// task1"


@pytest.mark.parametrize(
    ("phases", "counts"),
    [
        ({"setup": "passed", "call": "passed", "teardown": "passed"}, (1, 0, 0)),
        ({"setup": "passed", "call": "failed", "teardown": "passed"}, (0, 1, 0)),
        ({"setup": "passed", "call": "passed", "teardown": "failed"}, (0, 1, 0)),
        ({"setup": "failed", "teardown": "passed"}, (0, 1, 0)),
        ({"setup": "skipped", "teardown": "passed"}, (0, 0, 1)),
        ({"setup": "passed", "call": "skipped", "teardown": "passed"}, (0, 0, 1)),
        ({"collect": "failed"}, (0, 1, 0)),
        ({"setup": "passed"}, (0, 0, 0)),
    ],
)
def test_a_test_is_counted_once(phases: dict[str, str], counts: tuple[int, int, int]) -> None:
    tests = ("tests/test_a.py::test_b[1]", "tests/test_a.py::test_b[2]")
    said = {"failed": "E  assert False"}
    log = [(test, phase, outcome, 1.5, said.get(outcome, "")) for phase, outcome in phases.items() for test in tests]
    found = counted(log, complete=False)
    assert (found.passed, found.failed, found.skipped) == tuple(2 * count for count in counts)
    assert found.failures == tuple(FailedTest(test=test, said="E  assert False") for test in tests * counts[1])
    assert (found.complete, found.seconds) == (False, 3 * len(phases))
    assert found.slowest == tuple(f"{1.5 * len(phases)} s {test}" for test in reversed(tests * sum(counts)))


def test_a_test_that_is_begun_again_is_counted_once() -> None:
    log = [("a", "setup", "passed", 9.0, ""), ("a", "setup", "passed", 1.0, ""), ("a", "call", "passed", 2.0, "")]
    found = counted(log, complete=True)
    assert (found.passed, found.seconds, found.slowest) == (1, 3.0, ("3.0 s a",))
