"""The doctor's findings on this machine and on poorer ones."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from harness.building import toolchain
from harness.targets import prerequisites
from harness.targets.prerequisites import check_prerequisites

NAMES = [
    "Python", "C++ compiler", "OpenMP", "objdump", "ninja", "CuTe headers", "CUDA headers", "tvm-ffi", "torch", "nvcc",
    "GPU", "ncu", "isolation", "cache folder",
]  # fmt: skip


@pytest.fixture
def looked_up_anew():
    lookups = (toolchain.host_compiler, toolchain.disassembler, toolchain.cuda_compiler, toolchain.cute_include)
    for lookup in lookups:
        lookup.cache_clear()
    yield
    for lookup in lookups:
        lookup.cache_clear()


def check():
    return {found.name: found for found in check_prerequisites()}


def test_this_machine_can_do_what_the_tests_do():
    found = check()
    assert list(found) == NAMES
    for name in (
        "Python",
        "C++ compiler",
        "OpenMP",
        "objdump",
        "ninja",
        "CuTe headers",
        "CUDA headers",
        "tvm-ffi",
        "torch",
    ):
        assert found[name].status == "found", found[name]
    assert found["C++ compiler"].detail.startswith("g++")
    assert found["OpenMP"].detail.endswith(" threads")
    assert found["CuTe headers"].detail.startswith("CUTLASS 4.")


def test_whatever_is_not_found_has_a_remedy():
    for found in check_prerequisites():
        assert found.detail and found.needed_for
        assert bool(found.remedy) == (found.status != "found"), found


@pytest.mark.parametrize(("version", "status"), [("2.9.1", "limited"), ("2.11.0+cu130", "found"), ("3.0.0a0", "found")])
def test_an_older_torch_is_told_of(monkeypatch, version, status):
    real = prerequisites.metadata.version
    monkeypatch.setattr(prerequisites.metadata, "version", lambda name: version if name == "torch" else real(name))
    found = check()["torch"]
    assert found.status == status
    assert found.detail.startswith(version)
    assert ("pip install -U torch" in found.remedy) == (status == "limited")


def test_the_declared_minimum_of_torch_is_the_one_that_is_told():
    text = Path(__file__).parents[3].joinpath("pyproject.toml").read_text(encoding="utf-8")
    least = ".".join(map(str, prerequisites.LEAST_TORCH))
    assert f"torch>={least}" in tomllib.loads(text)["project"]["dependencies"]


def test_a_machine_without_compilers(looked_up_anew, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CXX", "g++")
    monkeypatch.setenv("CUTLASS_PATH", str(tmp_path))
    found = check()
    for name in ("C++ compiler", "OpenMP", "CuTe headers"):
        assert found[name].status == "missing", found[name]
    assert "apt install g++" in found["C++ compiler"].remedy
    assert "CUTLASS_PATH" in found["CuTe headers"].remedy


def test_a_compiler_without_openmp(looked_up_anew, monkeypatch, tmp_path):
    compiler = tmp_path / "g++"
    compiler.write_text("#!/bin/sh\n[ $# = 1 ] && exec g++ --version\necho no libgomp >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    found = check()
    assert found["C++ compiler"].status == "found" and found["OpenMP"].status == "missing"


def test_an_objdump_too_old_to_name_inlined_callers_is_none(looked_up_anew, monkeypatch, tmp_path):
    old = tmp_path / "objdump"
    old.write_text("#!/bin/sh\necho ' -l, --line-numbers'\n")
    old.chmod(0o755)
    compiler = tmp_path / "g++"
    real = shutil.which("g++")
    compiler.write_text(f"#!/bin/sh\n[ $1 = -print-prog-name=objdump ] && echo {old} && exit\nexec {real} $@\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    found = check()["objdump"]
    assert found.status == "missing" and "nothing is said" in found.detail and "binutils" in found.remedy


def test_a_cache_that_cannot_be_written(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("CUTEGEN_CACHE", str(tmp_path / "file"))
    found = check()["cache folder"]
    assert found.status == "missing" and "CUTEGEN_CACHE" in found.remedy


def test_torch_is_not_imported():
    script = (
        "import sys\nfrom harness.targets.prerequisites import check_prerequisites\n"
        "check_prerequisites()\nprint('torch' in sys.modules, 'tvm_ffi' in sys.modules)"
    )
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert answer.stdout == "False False\n"
