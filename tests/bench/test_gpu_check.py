"""The check of a GPU machine: what of it runs without one."""

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
import typer
from command_line import REPOSITORY
from scheduling import LONG_ON_A_GPU, SHARING_A_BUILD, scope_of
from suite_records import row, suite_record
from typer.testing import CliRunner

from bench.gpu_check import SMOKE, exit_code, main
from bench.gpu_model import GpuResult, GpuTests
from bench.gpu_tests import run_gpu_tests
from graph.runs.machine import this_machine
from graph.suites.tasks import load_suite
from harness.machine.gpu import find_gpu
from harness.nouns.errors import MachineError

MARKED = """
import pytest

@pytest.mark.gpu
def test_right(): pass

@pytest.mark.gpu
def test_wrong(): assert False

@pytest.mark.gpu
def test_not_here(): pytest.skip("no GPU")

def test_unmarked(): assert False
"""


def checkout(tmp_path: Path, tests: str) -> Path:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_marked.py").write_text(tests, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = gpu: x\n", encoding="utf-8")
    return tmp_path


def test_marked_tests_are_run_and_counted(tmp_path: Path) -> None:
    found = run_gpu_tests(tmp_path / "log.jsonl", limit_s=120, root=checkout(tmp_path, MARKED))
    assert (found.passed, found.failed, found.skipped) == (1, 1, 1)
    failure = found.failures[0]
    assert failure.test == "tests/test_marked.py::test_wrong"
    assert "def test_wrong(): assert False" in failure.said
    assert found.seconds > 0


ONE_PROCESS = """
import os, pytest
from pathlib import Path

@pytest.mark.gpu
@pytest.mark.parametrize("number", range(4))
def test_it(number): Path(__file__).with_suffix(".pids").open("a").write(f"{os.getpid()}\\n")
"""


def test_tests_run_beside_each_other_those_that_share_a_build_in_one_process(tmp_path: Path) -> None:
    pytest.importorskip("xdist")
    root = checkout(tmp_path, ONE_PROCESS)
    (root / "tests" / "test_exemplars_runs.py").write_text(ONE_PROCESS, encoding="utf-8")
    for name in ("conftest.py", "scheduling.py"):
        shutil.copy(REPOSITORY / "tests" / name, root / "tests")
    assert run_gpu_tests(tmp_path / "log.jsonl", limit_s=120, root=root, workers=2).passed == 8
    spread, together = (
        set((root / "tests" / name).read_text().split()) for name in ("test_marked.pids", "test_exemplars_runs.pids")
    )
    assert len(together) == 1
    assert spread - together


def test_the_files_that_share_a_build_exist() -> None:
    scopes = {file.stem: scope_of(f"{file}::test_it[a]") for file in (REPOSITORY / "tests").rglob("test_*.py")}
    assert {name for name, scope in scopes.items() if "::" not in scope} == set(SHARING_A_BUILD)
    assert set(LONG_ON_A_GPU) <= set(scopes)


ENDLESS = """
import pytest, time

@pytest.mark.gpu
def test_right(): pass

@pytest.mark.gpu
def test_hangs(): time.sleep(600)
"""


def test_what_had_ended_when_the_time_is_over_counts_and_is_not_done_again(tmp_path: Path) -> None:
    root, log = checkout(tmp_path, ENDLESS), tmp_path / "log.jsonl"
    found = run_gpu_tests(log, limit_s=20, root=root, workers=1)
    assert (found.passed, found.failed, found.complete) == (1, 0, False)
    with log.open("a", encoding="utf-8") as file:
        file.write('\n["tests/test_marked.py::test_han')  # killed while it wrote
    (root / "tests" / "test_marked.py").write_text(ENDLESS.replace("pass", "assert False").replace("600", "0"))
    found = run_gpu_tests(log, limit_s=120, root=root, workers=1)
    assert (found.passed, found.failed, found.complete) == (2, 0, True)
    assert run_gpu_tests(log, limit_s=120, root=root, workers=1).passed == 2


LEFT_BEHIND = """
import pytest

@pytest.fixture
def full():
    yield
    assert False

@pytest.mark.gpu
def test_leaves(full): pass

@pytest.mark.gpu
def test_fine(): pass
"""


def test_tests_that_hang_or_are_missing_are_the_machines_fault(tmp_path: Path) -> None:
    root = checkout(tmp_path, "import time\ntime.sleep(600)\n")
    with pytest.raises(MachineError, match="No GPU test was done within 3 s"):
        run_gpu_tests(tmp_path / "log.jsonl", limit_s=3, root=root)
    (root / "pytest.ini").write_text("[pytest]\naddopts = --unheard-of\n", encoding="utf-8")
    (tmp_path / "failed.jsonl").write_text('["t", "call", "failed", 1.0, "no"]', encoding="utf-8")
    for log in ("log.jsonl", "failed.jsonl"):  # a failure of an earlier run hides nothing
        with pytest.raises(MachineError, match=r"(?s)pytest broke down with exit code 4: .*unheard-of"):
            run_gpu_tests(tmp_path / log, limit_s=120, root=root)
    with pytest.raises(MachineError, match="a checkout with its tests"):
        run_gpu_tests(tmp_path / "log.jsonl", limit_s=3, root=tmp_path / "nowhere")


def test_an_error_while_collecting_or_tearing_down_is_a_failure(tmp_path: Path) -> None:
    root = checkout(tmp_path, LEFT_BEHIND)
    (root / "tests" / "test_broken.py").write_text("import nowhere_at_all\n", encoding="utf-8")
    found = run_gpu_tests(tmp_path / "broken.jsonl", limit_s=120, root=root)
    assert [failure.test for failure in found.failures] == ["tests/test_broken.py"]
    assert not found.complete
    assert "nowhere_at_all" in found.failures[0].said
    (root / "tests" / "test_broken.py").unlink()
    found = run_gpu_tests(tmp_path / "log.jsonl", limit_s=120, root=root)
    assert (found.passed, found.failed, found.failures[0].test) == (1, 1, "tests/test_marked.py::test_leaves")


def test_the_exit_code_says_whether_all_of_it_worked() -> None:
    whole = GpuResult(
        machine=this_machine(), driver="1", measured_at=datetime(2026, 1, 31, tzinfo=UTC), commands=(),
        suite=suite_record(row(1, 1.5)), tests=GpuTests(passed=1, failed=0, skipped=0, seconds=1.0),
    )  # fmt: skip
    assert exit_code(whole) == 0
    assert exit_code(whole.model_copy(update={"problems": ("x",)})) == 1
    failed = GpuTests(passed=1, failed=1, skipped=0, seconds=1.0)
    assert exit_code(whole.model_copy(update={"tests": failed})) == 1
    assert exit_code(whole.model_copy(update={"suite": suite_record(row(1, 1.5), outcome="interrupted")})) == 130
    assert exit_code(whole.model_copy(update={"suite": None})) == 130


def test_the_smoke_subset_exists_and_make_runs_it() -> None:
    assert len(load_suite("level1", ids=SMOKE)[1]) == len(SMOKE.split(","))
    assert "python -m bench.gpu_check" in (REPOSITORY / "Makefile").read_text(encoding="utf-8")


def test_without_a_gpu_it_is_one_sentence(tmp_path: Path) -> None:
    if find_gpu() is not None:
        pytest.skip("a GPU answers here")
    app = typer.Typer()
    app.command()(main)
    done = CliRunner().invoke(app, ["--out", str(tmp_path / "out")])
    assert done.exit_code == 3
    assert "No NVIDIA GPU answers on this machine." in done.output
