"""Asking nvidia-smi, with programs that answer as it does or as it should not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.machine.gpu import Gpu, find_gpu, parse_query


@pytest.fixture
def nvidia_smi(tmp_path, monkeypatch):
    def install(script):
        program = tmp_path / "nvidia-smi"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        find_gpu.cache_clear()

    yield install
    find_gpu.cache_clear()


def test_a_device_that_answers_is_found(nvidia_smi):
    nvidia_smi("echo 'NVIDIA H200, 9.0, 580.65.06'; echo 'NVIDIA H200, 9.0, 580.65.06'")
    assert find_gpu() == Gpu("NVIDIA H200", (9, 0), "580.65.06")


@pytest.mark.parametrize("script", ["exit 9", "echo 'No devices were found'", "echo", "exec /no/such/program"])
def test_everything_else_is_no_device(nvidia_smi, script):
    nvidia_smi(script)
    assert find_gpu() is None


def test_no_program_is_no_device(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    find_gpu.cache_clear()
    assert find_gpu() is None
    find_gpu.cache_clear()


@pytest.mark.parametrize(("capability", "name"), [((8, 0), "sm_80"), ((9, 0), "sm_90a"), ((12, 0), "sm_120a")])
def test_architectures(capability, name):
    assert Gpu("x", capability, "1").architecture == name


@given(st.text())
def test_any_answer_is_read_without_a_fault(text):
    found = parse_query(text)
    assert found is None or found.capability >= (0, 0)
