"""Everything is found without importing it, and what is missing is told with its remedy."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness.building import toolchain
from harness.nouns.errors import MachineError

CACHED = (
    toolchain.cute_include,
    toolchain.cuda_include,
    toolchain.tvm_ffi_folder,
    toolchain.headers,
    toolchain.host_compiler,
    toolchain.host_libraries,
    toolchain.cuda_compiler,
    toolchain.ninja,
)


@pytest.fixture(autouse=True)
def looked_up_anew():
    for lookup in CACHED:
        lookup.cache_clear()
    yield
    for lookup in CACHED:
        lookup.cache_clear()


def program(folder: Path, name: str, script: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_the_headers_are_all_there():
    found = toolchain.headers()
    for header in ("cute/tensor.hpp", "tvm/ffi/function.h", "cuda_runtime.h", "cuda/std/utility"):
        assert any((folder / header).is_file() for folder in found.include), header
    assert "CUTLASS_MAJOR 4" in found.versions[0]


def test_nothing_that_carries_headers_is_imported():
    script = (
        "import sys\nfrom harness.building.toolchain import headers, host_compiler, ninja\n"
        "headers(), host_compiler(), ninja()\n"
        "print([name for name in ('torch', 'tvm_ffi', 'cutlass_library', 'nvidia', 'ninja') if name in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert answer.stdout == "[]\n"


def test_cutlass_path_overrides_the_wheel(tmp_path, monkeypatch):
    (tmp_path / "include" / "cute").mkdir(parents=True)
    (tmp_path / "include" / "cute" / "tensor.hpp").touch()
    monkeypatch.setenv("CUTLASS_PATH", str(tmp_path))
    assert toolchain.headers().include[0] == tmp_path / "include"


def test_a_wrong_cutlass_path_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("CUTLASS_PATH", str(tmp_path))
    with pytest.raises(MachineError, match=r"cute/tensor\.hpp.*unset it"):
        toolchain.headers()


def test_cxx_may_be_several_words(monkeypatch):
    monkeypatch.setenv("CXX", "g++ -pipe")
    command = toolchain.host_compiler().command
    assert command[0].endswith("/g++") and command[1:] == ("-pipe",)


def test_a_compiler_is_told_no_key(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted")
    spy = program(tmp_path, "spy", f'env >> {tmp_path}/seen; exec g++ "$@"')
    monkeypatch.setenv("CXX", str(spy))
    toolchain.host_compiler()
    seen = (tmp_path / "seen").read_text()
    assert "PATH=" in seen
    assert "sk-planted" not in seen


def test_a_compiler_names_every_folder_that_it_reads(tmp_path, monkeypatch):
    """A g++ behind a wrapper, elsewhere than its headers: the folder that the command lies in does not tell."""
    real = shutil.which("g++")
    monkeypatch.setenv("CXX", str(program(tmp_path, "g++", f'exec {real} "$@"')))
    source = tmp_path / "all.cpp"
    source.write_text("#include <climits>\n#include <vector>\n#include <immintrin.h>\n", encoding="utf-8")
    answer = subprocess.run([real, "-M", str(source)], capture_output=True, text=True, check=True).stdout
    read = [Path(word).resolve() for word in answer.replace("\\\n", " ").split()[1:] if word != str(source)]

    roots = toolchain.host_compiler().roots

    assert tmp_path.resolve() in roots
    assert len(read) > 20
    assert [file for file in read if not any(file.is_relative_to(root) for root in roots)] == []


def test_clang_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", str(program(tmp_path, "c++", "echo clang version 18.1.0")))
    with pytest.raises(MachineError, match="is clang"):
        toolchain.host_compiler()


def test_a_compiler_that_does_not_run_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", str(program(tmp_path, "c++", "exit 3")))
    with pytest.raises(MachineError, match="ended with 3"):
        toolchain.host_compiler()


def test_cuda_home_comes_before_the_path(tmp_path, monkeypatch):
    first = program(tmp_path, "home/bin/nvcc", "echo release 1.0")
    second = program(tmp_path, "other/bin/nvcc", "echo release 2.0")
    monkeypatch.setenv("PATH", f"{second.parent}:/usr/bin:/bin")
    assert toolchain.cuda_compiler().version == "release 2.0"
    toolchain.cuda_compiler.cache_clear()
    monkeypatch.setenv("CUDA_HOME", str(first.parent.parent))
    found = toolchain.cuda_compiler()
    assert found.version == "release 1.0" and found.roots == (tmp_path / "home",)


def test_ninja_runs():
    assert toolchain.ask_version((str(toolchain.ninja()),))[0].isdigit()


def test_a_missing_program_is_told():
    with pytest.raises(MachineError, match=r"/no/such/program does not run"):
        toolchain.ask_version(("/no/such/program",))


@pytest.mark.parametrize("own", [True, False])
def test_a_compiler_brings_its_library_unless_it_is_the_systems(tmp_path, monkeypatch, own):
    library = tmp_path / "lib64" / "libstdc++.so.6"
    library.parent.mkdir()
    library.touch()
    told = library if own else "/usr/lib/libstdc++.so.6"
    script = f'case "$1" in --version) echo g++ 13;; -print-file-name=*) echo {told};; esac'
    monkeypatch.setenv("CXX", str(program(tmp_path / "bin", "g++", script)))
    assert toolchain.host_libraries() == ((tmp_path / "lib64",) if own else ())


def test_headers_of_the_cuda_wheels_that_miss_some_give_way_to_the_toolkits(tmp_path, monkeypatch):
    wheels, home = tmp_path / "wheels", tmp_path / "cuda"
    whole = ("cuda_runtime.h", "crt/host_defines.h")
    for folder, names in ((wheels / "nvidia" / "cu13" / "include", whole[:1]), (home / "include", whole)):
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).touch()
    program(home / "bin", "nvcc", "true")
    monkeypatch.setattr(toolchain, "wheel_folder", lambda name: wheels)
    monkeypatch.setenv("CUDA_HOME", str(home))
    assert toolchain.cuda_include() == home / "include"
