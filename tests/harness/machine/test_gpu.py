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


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ("NVIDIA A100-SXM4-80GB, 8.0, 550.54.15\n", ("NVIDIA A100-SXM4-80GB", (8, 0), "550.54.15")),
        ("  NVIDIA B200 , 10.0 , 580.1 \nNVIDIA H200, 9.0, 580.1", ("NVIDIA B200", (10, 0), "580.1")),
        ("NVIDIA RTX PRO 6000, 12.0, 580", ("NVIDIA RTX PRO 6000", (12, 0), "580")),
        ("NVIDIA H200, 90, 580", None),
        ("NVIDIA H200, 9.x, 580", None),
        ("NVIDIA H200, x.0, 580", None),
        ("NVIDIA H200, 9.\N{SUPERSCRIPT TWO}, 580", None),
        ("NVIDIA H200, \N{SUPERSCRIPT TWO}.0, 580", None),
        ("NVIDIA H200, [N/A], 580", None),
        ("NVIDIA H200, 9.0", None),
        ("NVIDIA H200, 9.0, 580, more", None),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", None),
    ],
)
def test_an_answer_is_read_or_no_device(answer, found):
    assert parse_query(answer) == (Gpu(*found) if found else None)


def test_the_driver_is_asked_once(nvidia_smi, tmp_path):
    nvidia_smi(f"echo x >> {tmp_path}/asked; echo 'NVIDIA H200, 9.0, 580.65.06'")
    assert find_gpu() is find_gpu()
    assert (tmp_path / "asked").read_text() == "x\n"


@given(
    st.one_of(
        st.text(), st.tuples(st.text(), st.text(), st.text(), st.text()).map(lambda four: "{}, {}.{}, {}".format(*four))
    )
)
def test_any_answer_is_read_without_a_fault(text):
    found = parse_query(text)
    assert found is None or found.capability >= (0, 0)
