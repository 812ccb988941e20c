"""Products for a GPU, without their data, and their kernels built by the real nvcc."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tvm_ffi

from harness.building.cuda_build import MODULE_ID, MODULE_ID_TEXT, CudaToolchain, parallel_edges
from harness.building.lean_headers import FOLDER, suffices, write_lean_headers
from harness.building.ninja_file import Edge, ninja_file, search_path
from harness.building.toolchain import cuda_compiler, headers, host_compiler, ninja, tvm_ffi_folder
from knowledge.compiler.plan import Plan
from knowledge.compiler.problem import Device, Problem
from knowledge.compiler.schedule.gemm import cuda_tensor as tensor
from knowledge.compiler.schedule.gemm.recipe import GemmRecipe

H200 = Device(architecture="sm_90a", multiprocessors=132, shared_bytes=227 << 10)
RECIPE = GemmRecipe()
CORES_A_FILE = 3
"""Reading CuTe's headers costs each file 6 s of a core; a test should take neither many cores nor minutes."""


def on_gpu(problem: Problem, **changes: object) -> Problem:
    return problem.model_copy(update={"target": "cuda", "device": H200, **changes})


def shaped(m: int, n: int, k: int, a: str = "N", b: str = "N", batch: int = 0, tail: str = "") -> Problem:
    """A @ B as KernelBench writes it, each operand plain (N) or transposed in memory (T), without any data."""
    extents = {"A": (m, k) if a == "N" else (k, m), "B": (k, n) if b == "N" else (n, k)}
    tensors, ops, operands = [], [], {}
    for name, (rows, columns) in extents.items():
        shape = (batch, rows, columns) if batch else (rows, columns)
        strides = (rows * columns, columns, 1) if batch else (columns, 1)
        tensors.append({"name": name, "shape": shape, "strides": strides, "dtype": "float32"})
        operands[name] = name
    for name, way in (("A", a), ("B", b)):
        if way == "T":
            rows, columns = extents[name]
            turned = {"name": f"{name}t", "shape": (columns, rows), "strides": (1, columns), "dtype": "float32"}
            ops.append({"target": "aten.t.default", "args": [{"ref": name}], "results": [turned]})
            operands[name] = f"{name}t"
    shape, strides = ((batch, m, n), (m * n, n, 1)) if batch else ((m, n), (n, 1))
    result = {"name": "mm", "shape": shape, "strides": strides, "dtype": "float32"}
    arguments = [{"ref": operands["A"]}, {"ref": operands["B"]}]
    ops.append({"target": "aten.bmm.default" if batch else "aten.mm.default", "args": arguments, "results": [result]})
    if tail:
        ops.append({"target": tail, "args": [{"ref": "mm"}], "results": [{**result, "name": "tail"}]})
    return Problem.model_validate(
        {
            "target": "cuda", "inputs": tensors, "outputs": [{**result, "name": "C"}], "ops": ops,
            "returns": ["tail" if tail else "mm"], "device": H200.model_dump(),
        }
    )  # fmt: skip


LEVEL1 = {
    1: shaped(4096, 4096, 4096), 2: shaped(2048, 4096, 8192), 3: shaped(512, 2048, 1024, batch=128),
    6: shaped(256, 256, 524288), 7: shaped(32768, 32768, 64), 8: shaped(8205, 5921, 2949),
    9: shaped(32768, 32768, 32), 10: shaped(16384, 768, 2048), 11: shaped(1048576, 768, 256),
    14: shaped(4096, 4096, 4096, tail="aten.triu.default"), 15: shaped(4096, 4096, 4096, tail="aten.tril.default"),
    16: shaped(2048, 4096, 8192, a="T"), 17: shaped(2048, 4096, 8192, b="T"), 18: shaped(2048, 4096, 8192, "T", "T"),
}  # fmt: skip


def tensor_plan(problem: Problem) -> Plan:
    """The first plan for tensor cores of every generation since Ampere."""
    moves = RECIPE.moves(problem, RECIPE.first_plan(problem))
    return next(move.plan for move in moves if move.plan.knobs["kernel"] == tensor.KERNEL)


def joined(sources: Sequence[str]) -> str:
    """Several kernels as one file, since reading CuTe's headers takes most of a build."""
    texts = []
    for number, source in enumerate(sources):
        text = re.sub(r"\bproduct\b", f"product{number}", source)
        texts.append(re.sub(r"\brun\b", f"run{number}", text))
    return "\n".join(texts)


@dataclass(frozen=True)
class Kernels:
    """Kernels that were built together, in a few libraries. `said` is what nvcc and ptxas printed."""

    parts: tuple[tuple[Path, int], ...]
    said: str

    def spilled(self) -> list[int]:
        """Bytes that each kernel spills, the libraries' helpers among them."""
        return [int(count) for count in re.findall(r"(\d+) bytes spill stores", self.said)]

    def run(self, number: int) -> Any:
        """The entry point of the kernel of this number."""
        for library, count in self.parts:
            if number < count:
                return getattr(tvm_ffi.load_module(str(library)), f"run{number}")
            number -= count
        raise IndexError(number)


def build(sources: Sequence[str], folder: Path, architectures: tuple[str, ...]) -> Kernels:
    """Builds them as the judge does: in one file on two cores, in several side by side where there are more."""
    files = max(1, min(len(sources), len(os.sched_getaffinity(0)) // CORES_A_FILE))
    each = -(-len(sources) // files)
    parts = [sources[first : first + each] for first in range(0, len(sources), each)]
    folders = [folder / f"part{number}-{len(part)}" for number, part in enumerate(parts)]
    with ThreadPoolExecutor(len(parts)) as pool:
        said = list(pool.map(lambda part, own: _build(part, own, architectures), parts, folders))
    return built_before(folder, "".join(said))


def built_before(folder: Path, said: str = "") -> Kernels:
    """What `build` left in a folder."""
    libraries = sorted(folder.glob("part*/all.so"))
    return Kernels(tuple((library, int(library.parent.name.partition("-")[2])) for library in libraries), said)


def _build(sources: Sequence[str], folder: Path, architectures: tuple[str, ...]) -> str:
    folder.mkdir()
    source = joined(sources)
    (folder / "kernel.cu").write_text(source)
    (folder / MODULE_ID).write_text(MODULE_ID_TEXT)
    lean = all(suffices(source, f"sm_{number}") for number in architectures) and write_lean_headers(folder)
    include = [word for path in (FOLDER,) * lean + headers().include for word in ("-isystem", str(path))]
    generated = [f"-gencode=arch=compute_{number},code=sm_{number}" for number in architectures]
    tvm = tvm_ffi_folder() / "lib"
    command = [
        *cuda_compiler().command, "-ccbin", host_compiler().command[0], "-std=c++17", "-O2", "--expt-relaxed-constexpr",
        *generated, "-diag-suppress", "20012,20013,20014,20015", "-Xptxas", "-v", *include, "-shared",
        "-Xcompiler", "-fPIC", f"-L{tvm}", "-ltvm_ffi", "-Xlinker", f"-rpath={tvm}",
    ]  # fmt: skip
    path = search_path(CudaToolchain("sm_80").compiler)
    whole = Edge("nvcc", (*command, "kernel.cu", "-o", "all.so"), ("kernel.cu",), "all.so")
    (folder / "build.ninja").write_text(
        ninja_file(parallel_edges(tuple(command), "kernel.cu", "all.so", path) or (whole,))
    )
    done = subprocess.run([ninja(), "--quiet", "-j2"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout + done.stderr
