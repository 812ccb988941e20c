"""Problems for a GPU, nvcc on many kernels in one file, and their calls where a GPU answers."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import tvm_ffi
from traced import assert_close, trace

from harness.building.lean_headers import FOLDER, suffices, write_lean_headers
from harness.building.toolchain import cuda_compiler, headers, host_compiler, tvm_ffi_folder
from harness.machine.gpu import find_gpu
from harness.nouns.errors import MachineError
from knowledge.compiler.problem import Device, Problem

H200 = Device(architecture="sm_90a", multiprocessors=132, shared_bytes=227 << 10, l2_bytes=50 << 20)
A100 = Device(architecture="sm_80", multiprocessors=108, shared_bytes=163 << 10, l2_bytes=40 << 20)


def traced(function: Callable[..., Any], *inputs: torch.Tensor, device: Device = H200) -> Problem:
    """The problem that `function(*inputs)` poses on a GPU."""
    return trace(function, *inputs, device=device).model_copy(update={"target": "cuda"})


def for_nvcc(sources: Sequence[str], *architectures: str) -> list[str]:
    """All that nvcc's answer to sources hangs on here: those, the architectures, and CuTe's headers made lean."""
    return [
        *sources,
        *architectures,
        *(str(suffices(source, each)) for source in sources for each in architectures),
        _lean(),
    ]


@cache
def _lean() -> str:
    with tempfile.TemporaryDirectory() as folder:
        write_lean_headers(Path(folder))
        files = sorted(path for path in Path(folder).rglob("*") if path.is_file())
        return "\n".join(f"{path.relative_to(folder)}\n{path.read_text()}" for path in files)


def compiled(folder: Path, sources: Sequence[str], architecture: str) -> str:
    """What nvcc's compiler for the device says on several kernels in one file; "" where all is well."""
    text = []
    for index, source in enumerate(sources):
        lines = [line for line in source.splitlines() if not line.startswith("TVM_FFI_DLL_EXPORT")]
        kernel = re.sub(r"\bkernels\b", f"kernels{index}", "\n".join(lines))
        kernel = kernel.replace("#define UNROLL", "#undef UNROLL\n#define UNROLL")
        kernel = re.sub(rf"^using namespace kernels{index};$", f"namespace entry{index} {{\n\\g<0>", kernel, flags=re.M)
        text.append(f"{kernel}\n}}  // namespace entry{index}\n")
    return compiled_as_it_is(folder, "".join(text), architecture)


def compiled_as_it_is(folder: Path, source: str, architecture: str) -> str:
    """What nvcc's compiler for the device says on a source file: its errors, or which wgmma it serializes; else ""."""
    file = folder / f"kernels_{architecture}.cu"
    file.write_text(source)
    return _nvcc(file, architecture, "-cubin", "-o", str(file.with_suffix(".cubin")))


def _nvcc(file: Path, architecture: str, *arguments: str) -> str:
    try:
        nvcc = cuda_compiler().command
    except MachineError as failure:
        pytest.skip(str(failure))
    # As the judge builds them: with as few of CuTe's headers as they need.
    lean = suffices(file.read_text(), architecture) and write_lean_headers(file.parent)
    folders = (file.parent / FOLDER,) * lean + headers().include
    include = [word for each in folders for word in ("-isystem", str(each))]
    command = [
        *nvcc, "-ccbin", host_compiler().command[0], "-std=c++17", "-O2", "--expt-relaxed-constexpr", "--cudart",
        "shared", f"-arch={architecture}", "-diag-suppress", "20012,20013,20014,20015", *include, str(file), *arguments,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    serialized = [line for line in said.splitlines() if "serialized" in line]
    return "\n".join(serialized)[:4000] if done.returncode == 0 else said[:4000]


def built(folder: Path, source: str, architecture: str) -> Path:
    """A kernel's library, in a folder of its own."""
    file, lib = folder / "kernel.cu", tvm_ffi_folder() / "lib"
    file.write_text(source)
    library = folder / "kernel.so"
    said = _nvcc(
        file, architecture, "-shared", "-Xcompiler", "-fPIC", "-o", str(library), f"-L{lib}", "-ltvm_ffi",
        "-Xlinker", f"-rpath={lib}",
    )  # fmt: skip
    assert not said, said
    return library


def check_on_gpu(folder: Path, problem: Problem, source: str, function: Callable[..., Any], scale: float = 1.0) -> None:
    """Build the kernel for the GPU at hand, run it on fresh inputs, and compare with torch and with float64."""
    gpu = find_gpu()
    if gpu is None:
        pytest.skip("no NVIDIA GPU answers")
    library = built(folder, source, gpu.architecture)
    inputs = [_filled(each, scale) for each in problem.inputs]
    expected, oracle = (
        function(*inputs),
        function(*(each.double() if each.is_floating_point() else each for each in inputs)),
    )
    expected, oracle = (each if isinstance(each, tuple) else (each,) for each in (expected, oracle))
    outputs = [torch.empty_strided(each.shape, each.stride(), dtype=each.dtype, device="cuda") for each in expected]
    for each in outputs:
        each.fill_(torch.nan if each.is_floating_point() else 77 if each.dtype != torch.bool else 1)
    tvm_ffi.load_module(str(library)).run(*inputs, *outputs)
    torch.cuda.synchronize()
    for index, (got, theirs, exact) in enumerate(zip(outputs, expected, oracle, strict=True)):
        assert_close(got, theirs, exact, f"output {index}")


def _filled(spec: Any, scale: float) -> torch.Tensor:
    dtype = getattr(torch, spec.dtype)
    storage = 1 + sum((extent - 1) * step for extent, step in zip(spec.shape, spec.strides, strict=True))
    values = torch.randn(storage, device="cuda") * scale
    if not dtype.is_floating_point:
        values = (values * 5).round()
    return values.to(dtype).as_strided(spec.shape, spec.strides)
