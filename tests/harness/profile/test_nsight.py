"""Nsight Compute's real answers (H200, 2025.3.1, cut to the lines that are read), from the table to the page."""

from __future__ import annotations

import shutil
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.building.toolchain import find_tool
from harness.isolation.policy import Needs
from harness.isolation.process import Completed
from harness.isolation.tiers import resolve_tier
from harness.machine.gpu import find_gpu
from harness.nouns.build import Build
from harness.nouns.candidate import Candidate
from harness.nouns.device_facts import DeviceFacts
from harness.nouns.profile import Hint
from harness.nouns.task import Signature, TensorSpec, Workload
from harness.nouns.verdict import Interval, Timing
from harness.profile import nsight as names
from harness.profile.counters import bottleneck, kernel_profiles, short_name
from harness.profile.device import profile_on_device
from harness.profile.nsight import (
    MAX_LAUNCHES,
    MISSING,
    PERMISSION,
    Launch,
    UnprofiledError,
    command,
    number,
    parse_answer,
    read_run,
)
from harness.profile.render import MAX_LINES, render
from harness.targets.cuda import CudaTarget

ANSWERS = Path(__file__).parent / "answers"
ONE = (1, 1, 1)
FACTS = DeviceFacts(
    device="NVIDIA H200", threads=270336, simd_floats=1, l1_bytes=1 << 18, l2_bytes=60 << 20, l3_bytes=60 << 20,
    peak_gb_s=4300, peak_gflop_s=58000, source="given", multiprocessors=132, tf32_gflop_s=535000, half_gflop_s=1070000,
)  # fmt: skip
TIMING = Timing(
    candidate_ms=0.27, baseline_ms=1, speedup=1, speedup_interval=Interval(low=1, high=1), rounds=1, threads=1,
    converged=True,
)  # fmt: skip


def answer(name):
    return (ANSWERS / f"{name}.csv").read_text()


def launches(name):
    return parse_answer(answer(name).splitlines())


def ended(outcome="exited", code=0, stderr=b""):
    return Completed(outcome, code, None, b"", stderr, 1.0, 0, 0, "")


def launch(name="kernel", grid=(1000, 1, 1), hints=(), **metrics):
    return Launch(name, grid, ONE, {getattr(names, key): value for key, value in metrics.items()}, list(hints))


def workload(dtype="float32"):
    spec = TensorSpec(name="x", shape=(1 << 20,), strides=(1,), dtype=dtype)
    signature = Signature(inputs=(spec,), outputs=(spec.model_copy(update={"name": "y"}),))
    return Workload(name="main", signature=signature, flops=10**6, bytes_moved=8 << 20)


def test_a_pointwise_kernel_is_read():
    (kernel,) = kernel_profiles(launches("pointwise"))
    assert (kernel.name, kernel.grid, kernel.block) == ("softsign", (65536, 1, 1), (256, 1, 1))
    assert (kernel.registers, kernel.shared_bytes, kernel.waves) == (24, 0, 62.06)
    assert kernel.time_ms == pytest.approx(0.124256) and kernel.share == 1
    assert (kernel.dram, kernel.memory, kernel.compute) == pytest.approx((0.8586, 0.8586, 0.2765))
    assert kernel.dram_bytes == 268445184 + 244934656
    assert (kernel.occupancy, kernel.occupancy_possible) == pytest.approx((0.7827, 1.0))
    assert kernel.occupancy_limit == "the block's size"
    assert (kernel.load_efficiency, kernel.store_efficiency) == (1.0, 1.0)
    assert (kernel.load_sectors, kernel.store_sectors) == (16, 16)
    assert kernel.stalls[0].reason == "waiting for device memory or the L2" and kernel.stalls[0].share > 0.8
    assert bottleneck((kernel,), 0.126, 132) == "memory"


def test_each_kernel_of_a_call_is_told_with_its_share():
    kernels = kernel_profiles(launches("transpose"))
    assert [kernel.name for kernel in kernels] == ["gather", "transpose", "scale"]
    assert sum(kernel.share for kernel in kernels) == pytest.approx(1)
    gather, transpose, scale = kernels
    assert gather.load_efficiency < 0.3 and scale.load_efficiency == 1
    assert transpose.bank_conflicts > 0.9 and scale.bank_conflicts == 0
    assert bottleneck(kernels, 0.27, 132) == "coalescing"
    assert bottleneck(kernels[1:], 0.15, 132) == "bank_conflicts"
    assert bottleneck(kernels, 2.7, 132) == "launch"


def test_tensor_cores_and_too_small_a_grid_are_seen():
    spilling, product = kernel_profiles(launches("tensor_cores"))
    assert product.tensor == pytest.approx(0.0796) and product.occupancy_limit == "registers"
    assert bottleneck((spilling, product), 0.28, 132) == "occupancy"
    assert bottleneck((product,), 0.09, 132) == "coalescing"


@pytest.mark.parametrize(
    ("metrics", "limit"),
    [
        ({"SPILLS": 0, "COMPUTE": 90}, "compute"),
        ({"FMA": 70}, "compute"),
        ({"TENSOR": 55, "LOAD_EFFICIENCY": 0, "LOAD_SECTORS": 16}, "compute"),
        ({"LOAD_EFFICIENCY": 0, "LOAD_SECTORS": 16}, "latency"),  # asynchronous copies are not counted
        ({"DRAM": 70}, "memory"),
        ({"MEMORY": 80, "COMPUTE": 70}, "on_chip"),
        ({"OCCUPANCY_POSSIBLE": 20}, "occupancy"),
        ({}, "latency"),
    ],
)
def test_the_busiest_unit_is_the_bottleneck(metrics, limit):
    numbers = {"OCCUPANCY_POSSIBLE": 100, "DURATION": 1e6, **metrics}
    numbers.pop("SPILLS", None)
    assert bottleneck(kernel_profiles([launch(**numbers)]), 1.0, 132) == limit


def test_spills_are_a_share_of_the_instructions():
    spilling = launch(DURATION=1e6, INSTRUCTIONS=1000)
    spilling.metrics |= {names.SPILLS[0]: 60, names.SPILLS[1]: 40}
    kernels = kernel_profiles([spilling])
    assert kernels[0].spills == pytest.approx(0.1)
    assert bottleneck(kernels, 1.0, 132) == "spills"


def test_launches_of_one_shape_are_added_up():
    same, other = launch(DURATION=1e6), launch(DURATION=1e6, grid=(7, 1, 1))
    kernels = kernel_profiles([same, same, other])
    assert [(kernel.launches, kernel.time_ms) for kernel in kernels] == [(2, 2.0), (1, 1.0)]


@pytest.mark.parametrize(
    ("told", "name"),
    [
        ("softsign(const float4 *, float4 *, long)", "softsign"),
        ("void sgemm<32>(const float *, float *)", "sgemm"),
        ("void a::b<c<(int)3>, d>::run<1>(int (*)(int))", "a::b::run"),
        ("plain", "plain"),
    ],
)
def test_names_lose_their_arguments(told, name):
    assert short_name(told) == name


def test_hints_are_plain_and_the_largest_gains_come_first():
    text = "Too few blocks.This is so. See the Guide (https://example.org/x.html) for more."
    hints = [Hint(message=text, gain=0.1), Hint(message="Most. " * 100, gain=0.5), Hint(message="Noise.", gain=0.01)]
    (kernel,) = kernel_profiles([launch(hints=hints, DURATION=1e6)])
    assert [hint.gain for hint in kernel.hints] == [0.5, 0.1]
    assert len(kernel.hints[0].message) < 400
    assert kernel.hints[1].message == "Too few blocks. This is so."


def test_what_keeps_the_counters_shut_is_one_sentence_with_the_remedy():
    for said in (b"==ERROR== ERR_NVGPUCTRPERM - The user does not have permission", b"x ERR_NVGPUCTRPERM"):
        with pytest.raises(UnprofiledError) as told:
            read_run(ended(code=1, stderr=said), "")
        assert str(told.value) == PERMISSION
    with pytest.raises(UnprofiledError, match="read nothing: Failed to initialize the profiler"):
        read_run(ended(), "==ERROR== Failed to initialize the profiler: LibraryNotLoaded.\n")
    with pytest.raises(UnprofiledError, match="the call failed: no such kernel"):
        read_run(ended(code=3, stderr=b"no such kernel"), "")
    with pytest.raises(UnprofiledError, match="launched no kernel"):
        read_run(ended(), "")
    with pytest.raises(UnprofiledError, match="did not end within"):
        read_run(ended("timed_out", None), "")


@pytest.mark.parametrize(
    ("text", "value"), [("1,234.5", 1234.5), ("12", 12), ("n/a", None), ("nan", None), ("", None), (None, None)]
)
def test_numbers_as_the_table_spells_them(text, value):
    assert number(text) == value


@given(st.lists(st.text(max_size=60), max_size=8))
def test_any_answer_is_read_without_a_fault(lines):
    assert parse_answer(lines) == [] or all(line for line in lines)


def test_the_page_shows_every_kernel_within_its_limit(monkeypatch):
    kernels = kernel_profiles(launches("transpose"))
    page = render(profiled(monkeypatch, answer("transpose")))
    assert len(page.splitlines()) <= MAX_LINES
    assert all(f"kernel      {kernel.name}: " in page for kernel in kernels)
    for words in ("grid 16 x 4096, block 256", "of peak: device memory 30%", "global loads use 22% of each sector",
                  "1. Moving its bytes", "2. Limited by coalescing", "estimate: 69%"):  # fmt: skip
        assert words in page, page
    assert "4300 GB/s" in page and "1.783e+05 GFLOP/s" in page  # three TF32 products make one of float32


def profiled(monkeypatch, text, code=0, says="cat answer"):
    """The profile of a library under a stand-in for ncu: a program that answers as the real one did, or `says` more."""
    folder = Path(tempfile.mkdtemp())
    (folder / "answer").write_text(text)
    program = folder / "ncu"
    program.write_text(f"#!/bin/sh\ncp {folder}/answer .\n{says} > answer.csv\nexit {code}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    find_tool.cache_clear()
    build = Build(digest="0" * 32, seconds=0)
    try:
        return profile_on_device(workload(), TIMING, build, FACTS, Needs(), tier="none")
    finally:
        find_tool.cache_clear()
        shutil.rmtree(folder)


def test_a_call_of_many_launches_says_that_not_all_were_read(monkeypatch):
    rows = answer("pointwise").splitlines()
    head = next(row for row in rows if row.startswith('"ID"'))
    many = [row.replace('"0"', f'"{number}"', 1) for number in range(MAX_LAUNCHES) for row in rows if row[:4] == '"0",']
    assert "Only the first 24 launches" in render(profiled(monkeypatch, "\n".join([head, *many])))
    assert "Only the first" not in render(profiled(monkeypatch, answer("pointwise")))


def test_without_permission_the_roofline_stands_alone_and_says_so(monkeypatch):
    profile = profiled(monkeypatch, "==ERROR== ERR_NVGPUCTRPERM", code=1)
    assert profile.unprofiled == PERMISSION and profile.kernels == () and profile.bottleneck is None
    assert profile.bound == "memory" and "counters    not read: The driver lets only" in render(profile)


def test_the_kernel_is_called_twice_behind_the_tool_and_may_be_profiled(monkeypatch):
    """The first call brings what is made once; the second is the one that counts."""
    unprofiled = profiled(monkeypatch, "", says='echo "==ERROR== $(cat order.json)"').unprofiled
    for words in ("read nothing: {", 'kernel.so"', '"calls": 2', '"device": "cuda"'):
        assert words in unprofiled


def test_without_ncu_the_roofline_stands_alone_and_says_so(monkeypatch):
    monkeypatch.setattr("harness.profile.nsight.find_tool", lambda name: None)
    build = Build(digest="0" * 32, seconds=0)
    profile = profile_on_device(workload("float16"), TIMING, build, FACTS, Needs(), tier="none")
    assert profile.unprofiled == MISSING and profile.peak_gflop_s == FACTS.half_gflop_s


def test_the_command_leaves_the_clocks_alone():
    words = command(Path("/opt/ncu"))
    assert words[0] == "/opt/ncu" and ("--clock-control", "none") in pairwise(words)


KERNEL = """\
__global__ void twice(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}
void run(tvm::ffi::TensorView x, tvm::ffi::TensorView y) {
  const int n = x.numel();
  auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(x.device().device_type, x.device().device_id));
  auto in = static_cast<const float*>(x.data_ptr());
  twice<<<(n + 255) / 256, 256, 0, stream>>>(in, static_cast<float*>(y.data_ptr()), n);
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""


@pytest.mark.gpu
@pytest.mark.skipif(find_gpu() is None, reason="no NVIDIA GPU answers here")
def test_a_kernel_on_a_real_gpu_is_profiled_in_the_cage():
    tier, target = resolve_tier("auto"), CudaTarget()
    build = target.compile(Candidate(source=KERNEL, target="cuda", author="test:test"), tier=tier)
    profile = target.profile(workload(), TIMING, build, tier=tier)
    sys.stdout.write(render(profile))
    if profile.unprofiled in (MISSING, PERMISSION):
        pytest.skip(profile.unprofiled)
    assert not profile.unprofiled
    (kernel,) = profile.kernels
    assert (kernel.name, kernel.grid, kernel.block) == ("twice", (4096, 1, 1), (256, 1, 1))
    assert kernel.load_efficiency == pytest.approx(1) and kernel.registers > 0 and kernel.time_ms > 0
