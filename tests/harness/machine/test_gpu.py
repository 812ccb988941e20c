"""Asking nvidia-smi, with programs that answer as it does or as it should not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.machine.gpu import Gpu, find_gpu, parse_query, reported_gpus, visible


@pytest.fixture
def nvidia_smi(tmp_path, monkeypatch):
    def install(script):
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        program = tmp_path / "nvidia-smi"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        reported_gpus.cache_clear()

    yield install
    reported_gpus.cache_clear()


def test_a_device_that_answers_is_found(nvidia_smi):
    nvidia_smi("echo 'GPU-1, NVIDIA H200, 9.0, 580.65.06'; echo 'GPU-2, NVIDIA H200, 9.0, 580.65.06'")
    assert find_gpu() == Gpu("GPU-1", "NVIDIA H200", (9, 0), "580.65.06")
    assert find_gpu(1) == Gpu("GPU-2", "NVIDIA H200", (9, 0), "580.65.06")
    assert find_gpu(2) is None


@pytest.mark.parametrize("script", ["exit 9", "echo 'No devices were found'", "echo", "exec /no/such/program"])
def test_everything_else_is_no_device(nvidia_smi, script):
    nvidia_smi(script)
    assert find_gpu() is None


def test_no_program_is_no_device(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    reported_gpus.cache_clear()
    assert find_gpu() is None
    reported_gpus.cache_clear()


@pytest.mark.parametrize(("capability", "name"), [((8, 0), "sm_80"), ((9, 0), "sm_90a"), ((12, 0), "sm_120a")])
def test_architectures(capability, name):
    assert Gpu("GPU-1", "x", capability, "1").architecture == name


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (
            "GPU-1, NVIDIA A100-SXM4-80GB, 8.0, 550.54.15\n",
            [("GPU-1", "NVIDIA A100-SXM4-80GB", (8, 0), "550.54.15")],
        ),
        (
            "  GPU-1 , NVIDIA B200 , 10.0 , 580.1 \nGPU-2, NVIDIA H200, 9.0, 580.1",
            [("GPU-1", "NVIDIA B200", (10, 0), "580.1"), ("GPU-2", "NVIDIA H200", (9, 0), "580.1")],
        ),
        ("GPU-1, NVIDIA H200, 9.0, 580\nGPU-2, [Unknown Error]", [("GPU-1", "NVIDIA H200", (9, 0), "580")]),
        ("GPU-1, NVIDIA H200, 90, 580", []),
        ("GPU-1, NVIDIA H200, 9.x, 580", []),
        ("GPU-1, NVIDIA H200, x.0, 580", []),
        ("GPU-1, NVIDIA H200, 9.\N{SUPERSCRIPT TWO}, 580", []),
        ("GPU-1, NVIDIA H200, \N{SUPERSCRIPT TWO}.0, 580", []),
        ("GPU-1, NVIDIA H200, [N/A], 580", []),
        ("GPU-1, NVIDIA H200, 9.0", []),
        ("GPU-1, NVIDIA H200, 9.0, 580, more", []),
        ("[N/A], NVIDIA H200, 9.0, 580", []),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", []),
    ],
)
def test_an_answer_is_read_up_to_what_is_no_device(answer, found):
    assert parse_query(answer) == tuple(Gpu(*fields) for fields in found)


ONE, TWO = (Gpu(f"GPU-{letter}1", "NVIDIA H200", (9, 0), "580") for letter in "ab")
PART = Gpu("MIG-7", "NVIDIA H200", (9, 0), "580")


@pytest.mark.parametrize(
    ("chosen", "left"),
    [
        (None, (ONE, TWO)),
        ("", ()),
        ("1", (TWO,)),
        ("1,0", (TWO, ONE)),
        (" 0 , 1 ", (ONE, TWO)),
        ("GPU-b", (TWO,)),
        ("GPU-b1,GPU-a1", (TWO, ONE)),
        ("0,2,1", (ONE,)),
        ("-1,0", ()),
        ("GPU-c,0", ()),
        ("MIG-7", (PART,)),
    ],
)
def test_the_variable_leaves_what_cuda_would_see(chosen, left):
    assert visible((ONE, TWO), chosen) == left
    assert visible((), chosen) == ()


def test_the_second_of_the_usable_gpus_is_counted_among_those(nvidia_smi, monkeypatch):
    nvidia_smi('for i in a b c; do echo "GPU-$i, NVIDIA H200, 9.0, 580.65.06"; done')
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,0")
    assert [find_gpu(ordinal) and find_gpu(ordinal).uuid for ordinal in range(3)] == ["GPU-c", "GPU-a", None]


def test_the_driver_is_asked_once(nvidia_smi, tmp_path):
    nvidia_smi(f"echo x >> {tmp_path}/asked; echo 'GPU-1, NVIDIA H200, 9.0, 580.65.06'")
    assert find_gpu() == find_gpu()
    assert (tmp_path / "asked").read_text() == "x\n"


@given(
    st.one_of(
        st.text(), st.tuples(st.text(), st.text(), st.text(), st.text()).map(lambda four: "{}, {}.{}, {}".format(*four))
    )
)
def test_any_answer_is_read_without_a_fault(text):
    assert all(found.capability >= (0, 0) for found in parse_query(text))
