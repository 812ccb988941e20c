"""Finding NVIDIA's tools: on PATH, as a script beside the program, beside nvcc, or not at all."""

from __future__ import annotations

import pytest

from harness.building.toolchain import cuda_compiler, find_tool, tool_folders


@pytest.fixture(autouse=True)
def fresh(monkeypatch, tmp_path):
    """No tool is known yet, and none is on PATH."""
    for cached in (find_tool, cuda_compiler):
        cached.cache_clear()
    monkeypatch.setenv("PATH", f"{tmp_path}/toolkit/bin:/usr/bin:/bin")
    monkeypatch.delenv("CUDA_HOME", raising=False)
    yield
    for cached in (find_tool, cuda_compiler):
        cached.cache_clear()


def program(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\necho 'release 13.0, V13.0.88'\n")
    path.chmod(0o755)
    return path


def test_a_program_on_path_is_taken(tmp_path):
    assert find_tool("some-tool") is None
    find_tool.cache_clear()
    here = program(tmp_path / "toolkit/bin/some-tool")
    assert find_tool("some-tool") == here


def test_the_program_is_preferred_to_the_script_that_starts_it(tmp_path):
    program(tmp_path / "toolkit/bin/some-tool")
    itself = program(tmp_path / "toolkit/some-tool/some-tool")
    assert find_tool("some-tool") == itself
    assert str(tmp_path / "toolkit") in tool_folders(itself)


def test_a_toolkit_off_path_is_searched(tmp_path, monkeypatch):
    home = tmp_path / "elsewhere"
    program(home / "bin/nvcc")
    beside = program(home / "bin/some-tool")
    monkeypatch.setenv("CUDA_HOME", str(home))
    assert find_tool("some-tool") == beside
