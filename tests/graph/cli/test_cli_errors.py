"""Bad input over the real command line: one sentence with file, cause and remedy, the documented code, no traceback."""

import io
import re
import signal
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from chat_server import chat_endpoint
from command_line import cutegen, here, one_object, softsign
from rich.console import Console
from typer.testing import CliRunner

from graph.cli.errors import guarded, note_way_on
from graph.cli.main import app
from graph.runs.progress import Terminal
from harness.isolation.tiers import resolve_tier
from harness.nouns.errors import MachineError, UserError
from harness.targets import cuda
from harness.tasks.describing import describe_task

MODEL = "import torch\nfrom torch import nn\n\n\nclass Model(nn.Module):\n    def forward(self, x):\n        {body}\n"
INPUTS = "\n\ndef get_inputs():\n    return [{inputs}]\n\n\ndef get_init_inputs():\n    return []\n"


def task(body: str = "return x * 2", inputs: str = "torch.randn(8, 8)") -> str:
    return MODEL.format(body=body) + INPUTS.format(inputs=inputs)


BAD_TASKS = {
    "syntax error": ("def broken(:\n", "syntax|line 1"),
    "import error": ("import no_such_module_here\n" + task(), "Install no_such_module_here"),
    "no Model": (INPUTS.format(inputs="1.0"), "Model"),
    "no get_inputs": (MODEL.format(body="return x"), "get_inputs"),
    "forward raises": (task("raise ValueError('cannot do this')"), "cannot do this"),
    "returns a text": (task("return 'a text'"), "tensor"),
    "returns a set": (task("return {x}"), "tensor"),
    "mutates its inputs": (task("return x.add_(1)"), "input"),
    "complex numbers": (task("return x * 1j", "torch.randn(8, 8)"), "complex"),
    "empty tensors": (task(inputs="torch.randn(0, 8)"), "empty|element"),
    "NaN in the reference": (task("return torch.log(x)", "-torch.ones(8, 8)"), "(?i)nan|finite"),
    "ends its process": (task("import os; os._exit(7)"), "7|process"),
}


@pytest.mark.parametrize("name", BAD_TASKS)
def test_a_bad_task_is_the_users_error(name: str, tmp_path: Path) -> None:
    source, expected = BAD_TASKS[name]
    file, out = tmp_path / "given.py", tmp_path / "run"
    file.write_text(source, encoding="utf-8")
    result = CliRunner().invoke(app, ["optimize", str(file), "--out", str(out), "--json"])
    assert result.exit_code == 2, result.output
    (sentence,) = [line for line in result.stderr.splitlines() if line.startswith("cutegen: ")]
    assert re.search(expected, sentence), sentence
    assert "given" in sentence
    assert "Traceback" not in result.output
    assert one_object(result.stdout)["error"] == "user"
    assert not out.exists(), "nothing was verified, so nothing should be left behind"
    named = f"given in {out}" in result.stderr.replace("\n", "")
    assert named == (f"Nothing was kept: {out} was removed." in result.stderr), result.stderr


def test_a_missing_argument_says_how_to_call_the_command() -> None:
    for name, called in (("verify", "cutegen verify KERNEL FILE"), ("export", "cutegen export RUN")):
        done = CliRunner().invoke(app, [name], prog_name="cutegen", env={"TERMINAL_WIDTH": "400", "COLUMNS": "400"})
        assert done.exit_code == 2
        assert f"Call it as {called}. {called.split()[2]}: " in done.stderr, done.stderr
    wrong = CliRunner().invoke(app, ["export", "x", "--form", "none"], env={"TERMINAL_WIDTH": "400"})
    assert "'none' is not one of" in wrong.stderr
    assert "Value error" not in wrong.stderr


def test_a_file_in_the_place_of_a_suite_is_said(tmp_path: Path) -> None:
    file = softsign(tmp_path)
    done = here("suite", str(file))
    assert done.exit_code == 2
    assert f"{file} is a file, and a suite is a folder of them. cutegen optimize {file} runs it." in done.stderr


def test_a_forward_that_does_not_end_is_ended_by_a_setting(tmp_path: Path) -> None:
    file, out = tmp_path / "endless.py", tmp_path / "run"
    describe_task(task(), name="short", tier=resolve_tier("auto"))  # torch is imported then, which is not timed here
    file.write_text(task("while True: pass"), encoding="utf-8")
    options = ("--out", str(out), "--set", "max_describe_s=10", "--target", "cpu")
    result = CliRunner().invoke(app, ["optimize", str(file), *options])
    assert result.exit_code == 2
    assert re.search(
        r"^cutegen: endless: .* 10 s, and was then running forward\. .* raise max_describe_s", result.stderr
    )
    assert not out.exists()


def test_a_task_that_no_memory_holds_is_refused_before_a_first_kernel(tmp_path: Path) -> None:
    file, out = tmp_path / "vast.py", tmp_path / "run"
    file.write_text(task(inputs="torch.randn(1, 1024).expand(50_000_000, 1024)"), encoding="utf-8")
    result = CliRunner().invoke(app, ["optimize", str(file), "--out", str(out), "--target", "cpu"])
    assert result.exit_code == 3
    assert re.search(r"^cutegen: vast needs 190\.7 GiB for one set of its arguments; .* GiB\. Choose", result.stderr)
    assert "first kernel" not in result.stdout
    assert "Go on with" not in result.stderr
    assert not out.exists()


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("optimize", "absent.py"), "There is no file absent.py. Name a Python file with class Model."),
        (("evolve", "--resume", "absent"), "There is no run absent. Name the folder that an earlier run printed."),
        (("model", "absent.py:made"), "There is no file absent.py:made. Name a Python file with class Model,"),
        (("verify", "absent.cu", "absent.py"), "There is no file absent.cu. Name a kernel"),
        (("compare", "absent", "absent"), "There is no run absent."),
    ],
)
def test_what_is_not_there_is_said_before_anything_slow_is_imported(
    command: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    tail = "\nfinally: print({'langgraph', 'langchain_core', 'torch', 'openai'} & set(sys.modules))"
    indented = "import sys\ntry:\n  from graph.cli.main import app; app()" + tail
    done = cutegen(*command, cwd=tmp_path, command=(sys.executable, "-c", indented))
    assert done.returncode == 2
    assert done.stderr.startswith(f"cutegen: {said}")
    assert done.stdout.strip() == "set()"


def test_no_such_file_over_a_real_process(tmp_path: Path) -> None:
    done = cutegen("optimize", tmp_path / "absent.py", cwd=tmp_path)
    assert done.returncode == 2
    assert re.fullmatch(
        r"cutegen: There is no file .*absent\.py\. Name a Python file with class Model\.\n", done.stderr
    )
    assert done.stdout == ""
    assert not (tmp_path / "runs").exists()


def test_no_file_and_wrong_options_are_the_users_error(tmp_path: Path) -> None:
    file = softsign(tmp_path)
    cases = (
        (["optimize"], "No file was given"),
        (["optimize", str(tmp_path)], "is a folder"),
        (["optimize", str(file), "--model", "oracle"], 'no model "oracle"'),
        (["optimize", str(file), "--model", "openai:x"], "OPENAI_API_KEY"),
        (["optimize", str(file), "--model", "replay:absent.jsonl"], "absent.jsonl"),
        (["optimize", str(file), "--depth", "-1"], "depth"),
        (["optimize", str(file), "--target", "tpu"], "tpu"),
        (["optimize", "--resume", str(tmp_path / "nowhere")], "There is no run"),
        (["optimize", "--resume", str(tmp_path)], "holds no run"),
        (["optimize", "--resume", str(tmp_path), "--out", "x"], "exclude each other"),
    )
    for arguments, expected in cases:
        result = CliRunner(env={"OPENAI_API_KEY": "", "OPENAI_BASE_URL": ""}).invoke(app, arguments)
        assert result.exit_code == 2, (arguments, result.output)
        assert expected in result.stderr, (arguments, result.stderr)


def test_binary_file_is_no_task(tmp_path: Path) -> None:
    file = tmp_path / "binary.py"
    file.write_bytes(b"\xff\xfe\x00\x01")
    result = CliRunner().invoke(app, ["optimize", str(file)])
    assert result.exit_code == 2
    assert "no UTF-8 text" in result.stderr


def test_no_compiler_is_the_machines_error(tmp_path: Path) -> None:
    done = cutegen(
        "optimize", softsign(tmp_path), "--target", "cpu", "--out", tmp_path / "run", "--json",
        CXX="/nowhere/g++",
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    said = one_object(done.stdout)
    assert said["error"] == "machine"
    assert "/nowhere/g++" in said["problem"]
    assert said["remedy"]
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("place", ["/proc/cutegen/run", "/dev/null/run"])
def test_a_run_folder_that_cannot_be_made_is_the_machines_error(place: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["optimize", str(softsign(tmp_path)), "--out", place])
    assert result.exit_code == 3
    assert place in result.stderr
    assert "--out" in result.stderr


def test_an_occupied_folder_is_named_with_the_way_on(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{}", encoding="utf-8")
    result = CliRunner().invoke(app, ["optimize", str(softsign(tmp_path)), "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert f"--resume {tmp_path}" in result.stderr


def test_a_model_that_answers_nonsense_forever_ends_the_run_with_what_it_has(tmp_path: Path) -> None:
    with chat_endpoint("answer", answer="I would rather talk about the weather.") as endpoint:
        done = here(
            "optimize", softsign(tmp_path), "--model", "openai:weather", "--base-url", endpoint.base_url,
            "--out", tmp_path / "run", "--target", "cpu", "--json",
        )  # fmt: skip
    assert done.exit_code == 1, done.stderr
    said = one_object(done.stdout)
    assert said["outcome"] == "nothing_faster"
    assert said["stop_reason"]
    assert said["usage"]["input_tokens"] == 11 * said["usage"]["calls"]
    assert 1 <= len(endpoint.requests) <= 20
    assert (tmp_path / "run" / "report.html").exists()
    assert not (tmp_path / "run" / "kernel.cu").exists()


def test_a_defect_of_ours_has_a_code_and_a_traceback_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    def defective() -> int:
        raise ZeroDivisionError("a bug")

    assert guarded(defective, as_json=False) == 70
    said = capsys.readouterr().err
    assert "ZeroDivisionError: a bug" in said
    assert said.rstrip().endswith("please report the lines above.")


def test_a_stop_that_was_lost_on_its_way_ends_the_next_step() -> None:
    """As one that comes while a finalizer runs is: Python prints it, and goes on."""

    def work() -> int:
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        Terminal(Console(file=io.StringIO())).started("tester")
        return 0

    before = signal.getsignal(signal.SIGINT)
    assert guarded(work, as_json=False) == 130
    assert guarded(lambda: Terminal(Console(file=io.StringIO())).started("tester") or 0, as_json=False) == 0
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_a_command_that_a_shell_put_into_the_background_can_be_stopped_too(kind: signal.Signals) -> None:
    before = signal.signal(kind, signal.SIG_IGN)
    try:
        assert guarded(lambda: signal.raise_signal(kind) or 0, as_json=False) == 130
        assert signal.getsignal(kind) is signal.SIG_IGN
    finally:
        signal.signal(kind, before)


def test_an_errors_own_notes_follow_its_sentence_and_the_graphs_do_not(capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> int:
        error = UserError("No.")
        error.add_note("During task with name 'capture' and id '1'")
        error.add_note("Go on so.")
        raise error

    assert guarded(work, as_json=False) == 2
    assert capsys.readouterr().err.splitlines() == ["cutegen: No.", "Go on so."]


@pytest.mark.parametrize("command", ["optimize", "evolve", "model"])
def test_without_a_gpu_there_is_no_run_to_go_on_with(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda, "find_gpu", lambda ordinal: None)
    file, out = softsign(tmp_path), tmp_path / "run"
    result = CliRunner().invoke(app, [command, str(file), "--target", "cuda", "--out", str(out)])
    assert result.exit_code == 3, result.output
    assert "none answers on this machine. Use --target cpu" in result.stderr
    assert "Go on with" not in result.output and not out.exists()


def test_a_run_whose_remedy_is_another_one_is_not_said_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    def failing(*, final: bool) -> int:
        error = MachineError("It is broken.", "Start a new run.", final=final)
        note_way_on(error, "Go on with: this.")
        raise error

    for final, said in ((True, ""), (False, "Go on with: this.\n")):
        assert guarded(partial(failing, final=final), as_json=False) == 3
        assert capsys.readouterr().err == f"cutegen: It is broken. Start a new run.\n{said}"
