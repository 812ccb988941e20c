"""The commands of the command line, with a real judge behind them."""

import subprocess
import sys
from pathlib import Path

import pytest
from command_line import BRIEF, REPOSITORY, cutegen, never_built, one_object, softsign, start
from typer.testing import CliRunner

from graph.api.calls import make_settings
from graph.cli.doctor import blocking
from graph.cli.main import app
from harness.nouns.verdict import Timing, Verdict
from harness.targets.prerequisites import Prerequisite, check_prerequisites

RIGHT = """
void run(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const float* in = static_cast<const float*>(x.data_ptr());
  float* to = static_cast<float*>(out.data_ptr());
  const int64_t n = x.numel();
#pragma omp parallel for simd
  for (int64_t i = 0; i < n; ++i) to[i] = in[i] / (1.0f + std::fabs(in[i]));
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""


def kernel(folder: Path, text: str) -> Path:
    file = folder / "kernel.cu"
    file.write_text("#include <cmath>\n" + text, encoding="utf-8")
    return file


def test_help_loads_nothing_heavy_and_states_the_exit_codes() -> None:
    check = "import graph.cli.main, sys; print({'langgraph', 'torch', 'pydantic', 'jinja2'} & set(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", check], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "set()"
    for command in ((), ("optimize",), ("verify",)):
        said = " ".join(CliRunner().invoke(app, [*command, "--help"]).output.split())
        for code in ("0 a faster kernel was found", "1 nothing faster", "2 something is wrong", "130 interrupted"):
            assert code in said, (command, said)


def test_version_and_completion() -> None:
    assert CliRunner().invoke(app, ["--version"]).output.startswith("cutegen ")
    help_text = CliRunner().invoke(app, ["--help"]).output
    assert "--install-completion" in help_text


def test_doctor_names_every_prerequisite() -> None:
    result = CliRunner().invoke(app, ["doctor", "--json"])
    named = {each["name"]: each for each in one_object(result.stdout)["prerequisites"]}
    assert {"C++ compiler", "OpenMP", "nvcc", "GPU", "ncu", "isolation", "model endpoint"} <= set(named)
    for each in named.values():
        assert each["status"] == "found" or each["remedy"], each
    assert result.exit_code == (3 if blocking(check_prerequisites()) else 0)


def test_doctor_fails_where_a_needed_thing_is_missing() -> None:
    done = cutegen("doctor", CXX="/nowhere/g++")
    assert done.returncode == 3
    assert "/nowhere/g++" in done.stdout.replace("\n", "")


def test_a_missing_gpu_does_not_block() -> None:
    gpu = Prerequisite(name="GPU", status="missing", detail="none", remedy="get one", needed_for="cuda")
    compiler = gpu.model_copy(update={"name": "C++ compiler"})
    assert blocking((gpu, compiler)) == (compiler,)


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize(
    ("text", "status", "code"),
    [
        (RIGHT, "passed", 0),
        (RIGHT.replace("1.0f +", "2.0f +"), "wrong", 1),
        (RIGHT.replace("to[i] =", "undeclared[i] ="), "build_failed", 1),
    ],
)
def test_verify_prints_one_verdict(text: str, status: str, code: int, tmp_path: Path) -> None:
    arguments = [
        "verify",
        str(kernel(tmp_path, text)),
        str(softsign(tmp_path)),
        "--target",
        "cpu",
        "--json",
        "--seed",
        "11",
    ]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == code, result.output
    assert one_object(result.stdout)["status"] == status
    assert Verdict.model_validate_json(result.stdout).seed == 11


@pytest.mark.usefixtures("brief")
def test_verify_says_the_same_in_words(tmp_path: Path) -> None:
    wrong = kernel(tmp_path, RIGHT.replace("1.0f +", "2.0f +"))
    arguments = ["verify", str(wrong), str(softsign(tmp_path)), "--target", "cpu", "--tolerance", "2"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1
    assert result.output.startswith("wrong")
    assert "Tolerance 2: errors" in result.output
    assert "reference's own" in result.output
    refused = CliRunner().invoke(app, ["verify", str(softsign(tmp_path)), str(softsign(tmp_path)), "--target", "cpu"])
    assert refused.exit_code == 1
    assert "There is no class ModelNew" in refused.output


@pytest.mark.usefixtures("brief")
def test_verify_judges_a_foreign_module(tmp_path: Path) -> None:
    file = tmp_path / "answer.py"
    file.write_text(
        "from torch import nn\n\n\nclass ModelNew(nn.Module):\n    def forward(self, x):\n"
        "        return x / (1 + (-x).maximum(x))\n"
    )
    arguments = ["verify", str(file), str(softsign(tmp_path)), "--target", "cpu", "--json"]
    passed = CliRunner().invoke(app, arguments)
    assert one_object(passed.stdout)["timing"]["advisory"].startswith("A ModelNew carries")
    assert passed.exit_code == 0


AT_ITS_END = "import atexit, sys\natexit.register(lambda: sys.stderr.write(f\"torch: {'torch' in sys.modules}\"))\n"


def test_optimize_prints_one_object_and_leaves_the_artifacts(tmp_path: Path) -> None:
    """All of a run, and the process that holds the graph never imports torch."""
    process = start(
        "optimize", softsign(tmp_path), "--target", "cpu", "--depth", 1, "--out", tmp_path / "run", "--json",
        cwd=tmp_path, command=(*BRIEF[:2], AT_ITS_END + BRIEF[2]),
    )  # fmt: skip
    stdout, stderr = process.communicate(timeout=240)
    said = one_object(stdout)
    assert process.returncode == (0 if said["outcome"] == "improved" else 1), stderr
    assert said["status"] == "passed"
    names = {Path(file).name for file in said["artifacts"]}
    expected = (
        "kernel.cu kernel.so model_new.py report.html record.json conversation.jsonl log.jsonl checkpoints.sqlite"
    )
    assert names == set(expected.split())
    assert all(Path(file).parent == tmp_path / "run" for file in said["artifacts"])
    assert said["speedup"] == Timing.model_validate(said["verdict"]["timing"]).headline.speedup
    assert "torch: False" in stderr
    progress = [line.split() for line in stderr.splitlines()]
    assert any(line[:2] == ["0", "generator"] for line in progress), stderr
    assert any(line[:2] == ["0", "tester"] and "passed, kept:" in " ".join(line) for line in progress), stderr
    again = CliRunner().invoke(app, ["optimize", "--resume", str(tmp_path / "run")])
    assert again.exit_code == process.returncode, again.output
    assert "not by a language model" in again.stdout
    other = CliRunner().invoke(app, ["optimize", str(never_built(tmp_path)), "--resume", str(tmp_path / "run")])
    assert other.exit_code == 2
    assert "is not the file" in other.stderr


def test_every_option_reaches_the_settings() -> None:
    """A depth or a seed that is accepted but not passed on would be a lie."""
    settings = make_settings({"depth": 3, "seed": 9, "target": "cpu", "isolation": "none", "base_url": "http://x/v1"})
    assert (settings.max_depth, settings.seed, settings.isolation, settings.base_url) == (3, 9, "none", "http://x/v1")
