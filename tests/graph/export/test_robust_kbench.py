"""Exports as robust-kbench calls them: through its own tasks, which hand over what their functions take."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from third_parties import checkout, robust_kbench

from graph.api.calls import load_task, optimize
from graph.packages.form import export
from graph.packages.robust_kbench import backward_file, forward_file
from graph.packages.source_package import Judged
from graph.runs.record import RunRecord
from harness.building.cuda_build import cuda_architecture
from harness.building.toolchain import cute_include
from harness.machine.gpu import find_gpu
from harness.nouns.candidate import Candidate
from harness.nouns.errors import UserError
from harness.nouns.task import Direction, Task
from harness.tasks.robust_folder import folder_source
from harness.trusted.facts.describing import describe
from nodes.events import Progress

DIRECTIONS: tuple[Direction, ...] = ("forward", "backward")
HEAD = """
#include <algorithm>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>
using tvm::ffi::TensorView;
static float* at(TensorView const& t) { return static_cast<float*>(t.data_ptr()); }
"""
PYCUDA = """
import torch


class Device:
    count = staticmethod(torch.cuda.device_count)

    def __init__(self, number):
        self.facts = torch.cuda.get_device_properties(number)

    def name(self):
        return self.facts.name

    def compute_capability(self):
        return self.facts.major, self.facts.minor

    def total_memory(self):
        return self.facts.total_memory

    def get_attributes(self):
        return {}


class _Names(type):
    def __getattr__(cls, name):
        return name


class device_attribute(metaclass=_Names):
    pass
"""
FORWARD = (
    HEAD
    + """
void run(TensorView x, TensorView w, TensorView b, TensorView y) {
  for (int64_t m = 0; m < y.size(0); ++m)
    for (int64_t n = 0; n < y.size(1); ++n) {
      float sum = at(b)[n];
      for (int64_t k = 0; k < x.size(1); ++k) sum += at(x)[m * x.size(1) + k] * at(w)[n * x.size(1) + k];
      at(y)[m * y.size(1) + n] = sum < 0 ? 0 : sum;
    }
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""
)
BACKWARD = (
    HEAD
    + """
void run(TensorView x, TensorView y, TensorView gy, TensorView w, TensorView b, TensorView lw, TensorView lb,
         TensorView gx, TensorView gw, TensorView gb) {
  int64_t const M = x.size(0), N = gy.size(1), K = x.size(1);
  std::fill_n(at(gx), M * K, 0.0f);
  std::fill_n(at(gw), N * K, 0.0f);
  std::fill_n(at(gb), N, 0.0f);
  for (int64_t m = 0; m < M; ++m)
    for (int64_t n = 0; n < N; ++n) {
      float const g = at(y)[m * N + n] > 0 ? at(gy)[m * N + n] : 0.0f;
      at(gb)[n] += g;
      for (int64_t k = 0; k < K; ++k) {
        at(gx)[m * K + k] += g * at(w)[n * K + k];
        at(gw)[n * K + k] += g * at(x)[m * K + k];
      }
    }
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""
)


def folder() -> Path:
    return checkout("CUTEGEN_ROBUST_KBENCH", "robust-kbench") / "tasks" / "mnist_linear_relu"


def one_size(place: Path) -> Path:
    """The folder, its forward at the backward's sizes, as a backward that computes the forward again needs it."""
    shutil.copytree(folder(), place)
    shutil.copy(place / "config_backward.json", place / "config_forward.json")
    return place


def judged(direction: Direction, kernel: str, place: Path) -> Judged:
    """A kernel for the first two workloads of the task."""
    task = Task.model_validate(describe(folder_source(place, direction), "mnist_linear_relu"))
    some = task.model_copy(update={"workloads": task.workloads[:2]})
    return Judged(some, Candidate(source=kernel, target="cpu", author="test"))


def built(text: str, place: Path) -> Any:
    """As its evaluator builds it, on a processor."""
    from torch.utils.cpp_extension import load

    file = place / "kernel.cpp"
    file.write_text(text)
    return load(name=f"robust_{place.name}", sources=[str(file)], build_directory=str(place))


@pytest.mark.timeout(900)
def test_its_tasks_call_the_kernels(tmp_path: Path) -> None:
    place = one_size(tmp_path / "mnist_linear_relu")
    forward, backward = judged("forward", FORWARD, place), judged("backward", BACKWARD, place)
    with pytest.raises(UserError, match="reads what the forward returned"):
        backward_file(backward, None)
    with pytest.raises(UserError, match=r"was not made for x \[64, 128\], weights \[10, 128\], biases \[10\]"):
        backward_file(backward, judged("forward", FORWARD, folder()))
    kernel_task = robust_kbench("kernel_task").KernelTask
    there, back = tmp_path / "there", tmp_path / "back"
    there.mkdir()
    back.mkdir()
    task = kernel_task(str(place))
    sizes, inputs = task.get_init_settings()[0], task.get_inputs(**task.get_input_settings()[0])
    model = task.model(**sizes)
    with torch.no_grad():
        ours = model(*inputs, fn=built(forward_file(forward), there).forward)
        torch.testing.assert_close(ours, model(*inputs, fn=task.forward_fn), atol=1e-4, rtol=1e-4)
    task = kernel_task(str(place), forward=False)
    sizes, given = task.get_init_settings()[0], task.get_input_settings()[0]
    torch.manual_seed(1)
    model = task.model(**sizes)
    (x,) = task.get_inputs(**given)
    task.autograd_fn.backward_fn = built(backward_file(backward, forward), back).backward
    found = []
    for function in (task.autograd_fn.apply, task.forward_fn):
        loss = model(x, fn=function).square().sum()
        found.append(torch.autograd.grad(loss, [x, model.weights, model.biases]))
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-2, rtol=1e-3)


def one_setting(place: Path) -> Path:
    """The folder with the backward's single setting alone: both directions are tasks of one workload."""
    one_size(place)
    config = json.loads((place / "config_backward.json").read_text())
    single = json.dumps({key: each for key, each in config.items() if key.startswith("single_")})
    for name in ("config_forward.json", "config_backward.json"):
        (place / name).write_text(single)
    return place


def without_pycuda(folder: Path) -> Path:
    """A folder of packages where robust-kbench finds of pycuda what it reports of the device, told by PyTorch."""
    package = folder / "pycuda"
    package.mkdir(parents=True)
    for name, text in (("__init__", ""), ("autoinit", ""), ("driver", PYCUDA)):
        (package / f"{name}.py").write_text(text)
    return folder


@pytest.mark.gpu
@pytest.mark.skipif(find_gpu() is None, reason="no NVIDIA GPU answers here")
@pytest.mark.timeout(600)
def test_its_evaluator_accepts_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its checkout lacks CUTLASS unless submodules were fetched; the GPU's own instructions have to be asked for."""
    evaluate = robust_kbench("primitives.evaluate")
    monkeypatch.setenv("NVCC_PREPEND_FLAGS", f"-isystem {cute_include()}")
    number = cuda_architecture().removeprefix("sm_")
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", number.replace("90a", "9.0a").replace("100a", "10.0a"))
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    monkeypatch.setenv("PYTHONPATH", str(checkout("CUTEGEN_ROBUST_KBENCH", "robust-kbench")), prepend=os.pathsep)
    monkeypatch.setenv("PYTHONPATH", str(without_pycuda(tmp_path / "packages")), prepend=os.pathsep)
    place, begun = one_setting(tmp_path / "mnist_linear_relu"), time.monotonic()

    def say(direction: Direction, text: str) -> None:
        sys.stdout.write(f"{time.monotonic() - begun:5.0f} s  {direction}: {text}\n")
        sys.stdout.flush()

    def heard(direction: Direction, progress: Progress) -> None:
        if progress.event.kind != "working":
            say(direction, f"{progress.agent}: {progress.event.kind}")

    def run(direction: Direction) -> RunRecord:
        return optimize(
            load_task(place, direction=direction), out=tmp_path / direction, target="cuda", depth=0, sanitize=False,
            compile_baseline=False, observer=partial(heard, direction),
        ).record  # fmt: skip

    def check(direction: Direction) -> Any:
        """It waits for a process whose output nobody reads, unless that is printed."""
        kernel = str(tmp_path / "out" / direction / "kernel.cu")
        say(direction, "robust-kbench builds and checks it")
        return evaluate.correct_cuda_kernel(
            task_dir=str(place), cuda_code_path=kernel, op_atol=1e-3, op_rtol=1e-3, forward=direction == "forward",
            timeout=300, debug=True,
        )  # fmt: skip

    with capsys.disabled(), ThreadPoolExecutor(2) as pool:
        say("forward", "begins")
        forward, backward = pool.map(run, DIRECTIONS)
        export(forward, "robust-kbench", tmp_path / "out", backward)
        for direction, found in zip(DIRECTIONS, pool.map(check, DIRECTIONS), strict=True):
            assert found["summary"]["correct"], found
            say(direction, "accepted")
