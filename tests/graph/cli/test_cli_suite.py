"""The suite's command: real runs side by side, killed and gone on with; and what is wrong with its arguments."""

import json
import signal
import sys
from pathlib import Path

import pytest
from chat_server import Scripted, chat_endpoint
from command_line import SCRIPTED, UNWATCHED, cutegen, here, never_built, one_object, start, wait_until
from softsign_script import KERNEL, written
from typer.testing import CliRunner

from graph.cli.main import app
from graph.runs.suite_record import SuiteRecord


def suite_of(tmp_path: Path) -> Path:
    """Two tasks that nothing has built, and between them a file that is none."""
    folder = tmp_path / "mine"
    folder.mkdir()
    for name in ("1_first.py", "3_last.py"):
        never_built(tmp_path).rename(folder / name)
    (folder / "2_broken.py").write_text("import torch\n", encoding="utf-8")
    return folder


def record_in(folder: Path) -> SuiteRecord:
    return SuiteRecord.model_validate_json((folder / "results.json").read_bytes())


@pytest.mark.slow
def test_a_killed_suite_goes_on_and_repeats_nothing(tmp_path: Path) -> None:
    """In the call for its last task's kernel: the first task had ended by then, the second is none."""
    out, suite = tmp_path / "out", suite_of(tmp_path)
    (suite / "2_broken.py").write_text("import torch  # judge: no task\n", encoding="utf-8")
    right = Scripted(written(KERNEL))
    with chat_endpoint("script", "hang", "script", script=(right, Scripted("never sent"), right)) as endpoint:
        options = ("--model", "openai:m", "--base-url", endpoint.base_url, *UNWATCHED, "--depth", 0, "--out", out)
        process = start("suite", suite, *options, "--jobs", 1, cwd=tmp_path, command=SCRIPTED)
        wait_until(lambda: len(endpoint.requests) > 1 or process.poll() is not None, "the last task's call")
        process.kill()
        stdout, stderr = process.communicate(timeout=60)
        assert process.returncode == -signal.SIGKILL, stdout + stderr
        first = (out / "1_first" / "record.json").read_bytes()
        assert json.loads(first)["outcome"] == "improved"
        assert record_in(out).outcome == "running"

        done = here("suite", "--resume", out, "--jobs", 2, "--json")
    assert done.exit_code == 0, done.stderr
    record = SuiteRecord.model_validate(one_object(done.stdout))
    assert record == record_in(out)
    assert (out / "1_first" / "record.json").read_bytes() == first, "what had ended is not run again"
    _, killed, resumed = (request["messages"] for request in endpoint.requests)
    assert resumed == killed
    assert "had ended before." in done.stderr
    assert [row.status for row in record.rows] == ["improved", "not_a_task", "improved"]
    assert "it has no class Model" in record.rows[1].reason
    assert (record.outcome, record.figures.tasks, record.figures.right) == ("finished", 3, 2)
    assert "| 1 | 1_first |" in (out / "results.md").read_text(encoding="utf-8")


def test_interrupted_or_out_of_time_it_says_how_to_go_on(tmp_path: Path) -> None:
    suite = suite_of(tmp_path)
    late = cutegen("suite", suite, "--target", "cpu", "--depth", 0, "--minutes", 0, "--out", "late", cwd=tmp_path)
    assert late.returncode == 130, late.stderr
    assert "Go on with: cutegen suite --resume late" in late.stderr
    assert "not begun" in late.stdout
    assert record_in(tmp_path / "late").outcome == "interrupted"

    process = start("suite", "--resume", "late", "--jobs", 2, cwd=tmp_path)
    wait_until(lambda: (tmp_path / "late" / "3_last" / "log.jsonl").exists(), "the last task's begin")
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 130, stderr
    assert "Go on with: cutegen suite --resume late" in stderr
    assert "Traceback" not in stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "No suite was given."),
        (("level9",), "There is no suite level9"),
        (("level1", "--ids", "40"), "No task has the id 40."),
        (("level1", "--ids", "x"), "'x' names no ids."),
        (("--resume", "nowhere"), "nowhere holds no suite"),
        (("level1", "--resume", "nowhere"), "A resumed suite has its tasks"),
        (("level1", "--model", "manual"), "A suite does not stop for answers."),
        (("level1", "--set", "repairer_model=manual"), "A suite does not stop for answers."),
        (("level1", "--model", "no-such-model"), "no-such-model"),
    ],
)
def test_bad_arguments_are_one_sentence(
    arguments: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["suite", *arguments, "--target", "cpu"])
    assert done.exit_code == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "runs").exists()


def test_it_runs_from_a_checkout_that_nothing_installed(tmp_path: Path) -> None:
    """On a machine without network or pip: the folders on PYTHONPATH, and no cutegen command."""
    done = cutegen("suite", "--help", cwd=tmp_path)
    assert done.returncode == 0
    assert "--minutes" in done.stdout
    assert sys.executable
