"""Compiling for a GPU needs none; running says so."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

import pytest

from harness.building.cuda_build import DEFAULT_ARCHITECTURE, cuda_architecture
from harness.building.toolchain import cuda_compiler
from harness.isolation.tiers import resolve_tier
from harness.machine.gpu import Gpu, find_gpu, reported_gpus
from harness.nouns.candidate import Candidate
from harness.nouns.device import DeviceName
from harness.nouns.errors import MachineError, UserError
from harness.targets.cuda import CudaTarget, driver_too_old
from harness.targets.prerequisites import check_prerequisites

KERNEL = """\
#include <cute/tensor.hpp>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>
__global__ void twice(const float* x, float* y, int n) {
  __shared__ float tile[128];
  auto in = cute::make_tensor(cute::make_gmem_ptr(x), cute::make_layout(n));
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  tile[threadIdx.x] = i < n ? in(i) : 0;
  __syncthreads();
  if (i < n) y[i] = tile[threadIdx.x] + tile[threadIdx.x ^ 1];
}
void run(tvm::ffi::TensorView x, tvm::ffi::TensorView y) {
  const int n = x.numel();
  auto device = x.device();
  auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(device.device_type, device.device_id));
  auto in = static_cast<const float*>(x.data_ptr());
  twice<<<(n + 127) / 128, 128, 0, stream>>>(in, static_cast<float*>(y.data_ptr()), n);
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""


def compile_cuda(source):
    try:
        cuda_compiler()
    except MachineError as missing:
        pytest.skip(str(missing))
    candidate = Candidate(source=source, target="cuda", author="test:test")
    return CudaTarget().compile(candidate, tier=resolve_tier("auto"))


def test_a_kernel_compiles_without_a_gpu_and_tells_its_resources():
    build = compile_cuda(KERNEL)
    assert build.succeeded, build.diagnostics
    (resources,) = build.resources
    assert resources.kernel == "twice" and resources.shared_bytes == 512 and resources.spill_bytes == 0
    assert 1 <= resources.registers <= 255
    again = compile_cuda(KERNEL)
    assert again.cached and again.resources == build.resources


def test_a_wrong_kernel_gives_diagnostics():
    build = compile_cuda(KERNEL.replace("cute::make_layout(n)", "cute::make_layout(n, n, n, n)"))
    assert not build.succeeded
    first = build.diagnostics[0]
    assert (first.severity, first.file, first.line) == ("error", "kernel", 7)


@pytest.mark.skipif(find_gpu() is not None, reason="a GPU answers here")
def test_running_says_that_a_gpu_is_needed():
    for call in (CudaTarget().require_device, CudaTarget().facts):
        with pytest.raises(MachineError, match=r"needs an NVIDIA GPU.*--target cpu"):
            call()


def test_the_architecture_can_be_chosen(monkeypatch):
    monkeypatch.setenv("CUTEGEN_CUDA_ARCH", "sm_90a")
    assert cuda_architecture() == "sm_90a"
    monkeypatch.setenv("CUTEGEN_CUDA_ARCH", "sm_90; rm -rf /")
    with pytest.raises(UserError, match="sm_90a"):
        cuda_architecture()


@pytest.mark.skipif(find_gpu() is not None, reason="a GPU answers here")
def test_without_a_device_the_default_architecture_is_taken(monkeypatch):
    monkeypatch.delenv("CUTEGEN_CUDA_ARCH", raising=False)
    assert cuda_architecture() == DEFAULT_ARCHITECTURE


@pytest.mark.parametrize(
    ("supported", "toolkit", "words"),
    [
        (13000, (13, 0), ""),
        (13000, (13, 1), ""),
        (13010, (12, 4), ""),
        (0, (13, 0), ""),
        (12999, (13, 0), "supports CUDA 12"),
        (12000, (12, 9), ""),
        (11080, (12, 0), r"supports CUDA 11\.8, too old for nvcc 12\.0"),
        (12040, (13, 0), r"driver 550 supports CUDA 12\.4, too old for nvcc 13\.0"),
    ],
)
def test_a_driver_too_old_for_the_toolkit_is_named(supported, toolkit, words):
    assert bool(words) == bool(driver_too_old("550", supported, toolkit))
    assert re.search(words, driver_too_old("550", supported, toolkit))


ONE, TWO = (Gpu(f"GPU-{letter}1", "NVIDIA H200", (9, 0), "580") for letter in "ab")


def test_each_gpu_is_a_device_by_its_uuid(monkeypatch):
    monkeypatch.setattr("harness.targets.cuda.find_gpu", lambda ordinal: dict(enumerate((ONE, TWO))).get(ordinal))
    assert CudaTarget(1).device == DeviceName(target="cuda", ordinal=1, uuid="GPU-b1")
    assert CudaTarget(2).device == DeviceName(target="cuda", ordinal=2, uuid="")
    with pytest.raises(MachineError, match=r"GPU 2 \(they count from 0\) does not answer"):
        CudaTarget(2).require_device()


def test_what_running_needs_is_for_running_only():
    try:
        needs = CudaTarget().running()
    except MachineError as missing:
        pytest.skip(str(missing))
    assert "/dev/nvidiactl" in needs.access.devices
    assert all(Path(folder).is_dir() for folder in needs.access.read)
    assert needs.environment["CUDA_CACHE_PATH"] == "{scratch}"


def test_the_choice_of_gpus_and_the_callers_libraries_reach_the_process(tmp_path, monkeypatch):
    try:
        plain = CudaTarget().running()
    except MachineError as missing:
        pytest.skip(str(missing))
    (tmp_path / "own").mkdir()
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{tmp_path}/own::{tmp_path}/missing:{tmp_path}/own")
    monkeypatch.setattr("harness.targets.cuda.find_gpu", [ONE, TWO].__getitem__)
    monkeypatch.setenv("OPENAI_API_KEY", "the-secret")
    needs = CudaTarget(1).running()
    assert needs.access.read[0] == str(tmp_path / "own") and len(set(needs.access.read)) == len(needs.access.read)
    assert needs.environment["LD_LIBRARY_PATH"].split(":") == list(needs.access.read)
    assert needs.gpus == needs.environment["CUDA_VISIBLE_DEVICES"] == "GPU-b1", "by its UUID, however it is counted"
    assert CudaTarget(0).running().gpus == "GPU-a1"
    assert set(needs.environment) == {"LD_LIBRARY_PATH", "CUDA_CACHE_PATH", "CUDA_VISIBLE_DEVICES"}
    assert not needs.access.profiling and needs.access.write == ()
    assert {"/dev/nvidiactl", "/dev/nvidia-uvm"} <= set(plain.access.devices)
    assert not [node for node in plain.access.devices if "caps" in node or "modeset" in node]


@pytest.mark.skipif(find_gpu() is not None, reason="a GPU answers here")
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            "GPU-1, Tesla V100, 7.0, 580.65.06",
            r"nvcc \d+\.\d+ does not compile for the Tesla V100 \(sm_70\)\. Set",
        ),
        ("GPU-1, NVIDIA H200, 9.0, 580.65.06", r"PyTorch \S+\+cpu is built without CUDA\. Install the CUDA build"),
    ],
)
def test_a_gpu_that_does_not_fit_says_what_does(tmp_path, monkeypatch, answer, words):
    """nvcc and PyTorch are this machine's own; the device is what a program named nvidia-smi says."""
    try:
        cuda_compiler()
    except MachineError as missing:
        pytest.skip(str(missing))
    if "H200" in answer and "+cpu" not in metadata.version("torch"):
        pytest.skip("this PyTorch is built with CUDA")
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\necho '{answer}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    reported_gpus.cache_clear()
    try:
        with pytest.raises(MachineError, match=words):
            CudaTarget().require_device()
        (told,) = (found for found in check_prerequisites() if found.name == "GPU")
        assert told.status == "limited"
        assert re.search(words, f"{told.detail} {told.remedy}")
    finally:
        reported_gpus.cache_clear()
