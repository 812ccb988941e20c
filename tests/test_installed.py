"""What `pip install` of the built wheel gives: the public name, the command, and the main job in an empty folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import softsign

ROOT = Path(__file__).parents[1]
PACKAGES = ("graph", "nodes", "tools", "knowledge", "harness")
USE = """
import torch, cutegen
result = cutegen.optimize("softsign.py", depth=0, target="cpu", sanitize=False, out="run")
model, x = cutegen.load("run"), torch.randn(64, 1024)
with torch.no_grad():
    torch.testing.assert_close(model(x), x / (1 + x.abs()))
print(cutegen.__file__, result.verdict.status)
"""
BRIEFLY = """
import runpy, sys
from brief_judge import brief_here
del sys.argv[0]
with brief_here():
    runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Runs a program with judges that take little time over timing."""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds the wheel's packages alone; what they need is the present environment's."""
    pytest.importorskip("setuptools", "77", reason="the wheel is built without a download")
    made = tmp_path_factory.mktemp("wheel")
    source = made / "source"
    for package in PACKAGES:
        shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, source)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "-q")
    alone = ("--no-deps", "--no-index")
    subprocess.run([*pip, "wheel", *alone, "--no-build-isolation", "-w", made, source], check=True, timeout=240)
    (wheel,) = made.glob("*.whl")
    subprocess.run([*pip, "install", *alone, "--target", made / "installed", wheel], check=True, timeout=240)
    return made / "installed"


def run(installed: Path, folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    softsign(folder)
    path = os.pathsep.join([str(installed), str(ROOT / "tests" / "support")])
    environment = {**os.environ, "PYTHONPATH": path, "COLUMNS": "120"}
    return subprocess.run(
        [sys.executable, "-c", BRIEFLY, *command], cwd=folder, env=environment, capture_output=True, text=True,
        timeout=280, check=False,
    )  # fmt: skip


def test_the_installed_command_does_the_main_job(installed: Path, tmp_path: Path) -> None:
    options = ("--depth", "0", "--target", "cpu", "--set", "sanitize=false", "--out", "run")
    done = run(installed, tmp_path, str(installed / "bin" / "cutegen"), "optimize", "softsign.py", *options)
    assert done.returncode in (0, 1), done.stderr
    assert "passed" in done.stdout
    assert {"kernel.cu", "kernel.so", "model_new.py", "report.html"} <= {
        file.name for file in (tmp_path / "run").iterdir()
    }


@pytest.mark.slow
def test_the_public_name_is_there_and_works(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "use.py").write_text(USE)
    done = run(installed, tmp_path, "use.py")
    assert done.returncode == 0, done.stderr
    file, status = done.stdout.split()
    assert (Path(file).is_relative_to(installed), status) == (True, "passed")
    assert done.stderr == "", "nobody reads a pipe"


def test_the_wheel_holds_each_package_once(installed: Path) -> None:
    assert (installed / "cutegen" / "__init__.py").is_file()
    assert not (installed / "graph" / "cutegen").exists()
    assert {file.name for file in installed.iterdir() if file.is_dir()} >= {*PACKAGES, "cutegen", "bin"}
