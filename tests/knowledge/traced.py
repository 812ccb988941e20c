"""Traces modules into problems, compiles what the playbook writes with the real g++, and calls it on torch tensors."""

from __future__ import annotations

import hashlib
import subprocess
import sysconfig
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
import tvm_ffi

from knowledge.playbook.problem import Device, Problem

SITE = Path(sysconfig.get_paths()["purelib"])
HEADERS = (
    "cute/tensor.hpp", "tvm/ffi/container/tensor.h", "tvm/ffi/function.h", "tvm/ffi/error.h",
    "tvm/ffi/extra/c_env_api.h", "cmath",
)  # fmt: skip
FLAGS = ("-std=c++17", "-O3", "-march=native", "-fopenmp", "-fPIC", "-fvisibility=hidden", "-w")
INCLUDES = tuple(
    f"-isystem{SITE / folder}"
    for folder in (
        "cutlass_library/source/include",
        "tvm_ffi/include",
        "nvidia/cu13/include",
        "nvidia/cu13/include/cccl",
    )
)
MACHINE = Device(threads=2, simd_floats=8)


def _plain(value: Any, names: dict[str, str]) -> Any:
    """A traced argument as the judge's task spells it."""
    if isinstance(value, torch.fx.Node):
        return {"ref": names.get(value.name, value.name)}
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).removeprefix("torch.")}
    if isinstance(value, torch.device | torch.layout | torch.memory_format):
        return str(value)
    if isinstance(value, list | tuple):
        return tuple(_plain(each, names) for each in value)
    return value


def spec(name: str, tensor: torch.Tensor) -> dict[str, Any]:
    """A tensor's description."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    return {
        "kind": "tensor", "name": name, "shape": tuple(tensor.shape), "strides": tuple(tensor.stride()), "dtype": dtype,
    }  # fmt: skip


def _op(node: torch.fx.Node, names: dict[str, str]) -> dict[str, Any]:
    value = node.meta["val"]
    if value is None:
        return {"target": str(node.target), "results": ()}
    many = isinstance(value, list | tuple)
    results = [
        spec(f"{node.name}_{k}" if many else node.name, each) for k, each in enumerate(value if many else [value])
    ]
    if many:
        for user in node.users:
            results[user.args[1]]["name"] = user.name
    return {
        "target": str(node.target),
        "args": _plain(node.args, names),
        "kwargs": {key: _plain(each, names) for key, each in node.kwargs.items()},
        "results": results,
    }


def trace(
    module: torch.nn.Module | Callable[..., Any], *inputs: Any, device: Device = MACHINE, names: Sequence[str] = ()
) -> Problem:
    """The problem that the judge's tracer would pose for `module(*inputs)`."""
    if not isinstance(module, torch.nn.Module):
        module = _Wrapped(module, len(inputs))
    exported = torch.export.export(module, inputs)
    nodes = list(exported.graph.nodes)
    signature = exported.graph_signature
    renames = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    (output,) = (node.args[0] for node in nodes if node.op == "output")
    values = [node.meta["val"] for node in output]
    single = len(values) == 1
    users = [node for node in nodes if node.op == "placeholder" and node.name not in renames]
    return Problem.model_validate(
        {
            "target": "cpu",
            "inputs": [
                spec(node.name, each)
                if isinstance(each, torch.Tensor)
                else {"kind": "scalar", "name": node.name, "type": type(each).__name__, "value": each}
                for node, each in zip(users, inputs, strict=True)
            ],
            "parameters": [spec(name, each) for name, each in module.state_dict(keep_vars=False).items()],
            "outputs": [spec("output" if single else f"output{k}", each) for k, each in enumerate(values)],
            "ops": [
                _op(node, renames) for node in nodes if node.op == "call_function" and "getitem" not in str(node.target)
            ],
            "returns": [renames.get(node.name, node.name) for node in output],
            "device": device.model_dump(),
        }
    )


class _Wrapped(torch.nn.Module):
    """A function as a module, with as many named arguments as it takes."""

    def __init__(self, function: Callable[..., Any], arity: int) -> None:
        super().__init__()
        self.function = function
        if arity == 1:
            self.forward = self._one  # type: ignore[method-assign]
        elif arity == 2:
            self.forward = self._two  # type: ignore[method-assign]
        else:
            self.forward = self._three  # type: ignore[method-assign]

    def _one(self, a: Any) -> Any:
        return self.function(a)

    def _two(self, a: Any, b: Any) -> Any:
        return self.function(a, b)

    def _three(self, a: Any, b: Any, c: Any) -> Any:
        return self.function(a, b, c)


class Compiler:
    """g++ behind a precompiled header; libraries are kept by their source's digest."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        header = folder / "common.h"
        header.write_text("".join(f"#include <{name}>\n" for name in HEADERS))
        self._gcc("-x", "c++-header", str(header), "-o", str(folder / "common.h.gch"))

    def build(self, source: str) -> Path:
        """The shared library; a failed compilation fails the test with g++'s own words."""
        stem = self.folder / hashlib.sha256(source.encode()).hexdigest()[:16]
        library = stem.with_suffix(".so")
        if not library.exists():
            file = stem.with_suffix(".cpp")
            file.write_text(source)
            lib = SITE / "tvm_ffi/lib"
            self._gcc(
                "-include", str(self.folder / "common.h"), str(file), "-shared", "-o", str(library),
                f"-L{lib}", "-ltvm_ffi", f"-Wl,-rpath,{lib}",
            )  # fmt: skip
        return library

    def build_all(self, sources: Sequence[str]) -> list[Path]:
        """Several libraries, two compilers at a time."""
        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(self.build, sources))

    def _gcc(self, *arguments: str) -> None:
        done = subprocess.run(["g++", *FLAGS, *INCLUDES, *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[:6000]


def call(
    library: Path, problem: Problem, inputs: Sequence[Any], state: dict[str, torch.Tensor] | None = None
) -> list[torch.Tensor]:
    """Run a kernel into poisoned outputs of the described strides."""
    tensors = state or {}
    outputs = []
    for output in problem.outputs:
        dtype = getattr(torch, output.dtype)
        fill = torch.nan if dtype.is_floating_point else 77
        made = torch.empty_strided(output.shape, output.strides, dtype=dtype)
        outputs.append(made.fill_(fill) if dtype != torch.bool else made.fill_(True))
    parameters = [tensors[each.name] for each in problem.parameters]
    tvm_ffi.load_module(str(library)).run(*inputs, *parameters, *outputs)
    return outputs


def scaled_error(got: torch.Tensor, oracle: torch.Tensor) -> float:
    """The judge's measure: the largest |got - oracle| / (|oracle| + rms(oracle)) over elements finite in both."""
    got, oracle = got.double(), oracle.double()
    finite = torch.isfinite(oracle) & torch.isfinite(got)
    if not finite.any():
        return 0.0
    size = oracle[finite].abs()
    scale = size + size.square().mean().sqrt()
    gap = (got[finite] - oracle[finite]).abs()
    return float(torch.where(gap == 0, gap, gap / scale).max())


def assert_close(got: torch.Tensor, reference: torch.Tensor, oracle: torch.Tensor, label: str) -> None:
    """Right where torch's own result is right: same NaN and infinities, error a small multiple of torch's own."""
    assert got.shape == reference.shape and got.dtype == reference.dtype, label
    if not reference.dtype.is_floating_point:
        assert torch.equal(got, reference), (
            f"{label}: {got[got != reference][:4]} not {reference[got != reference][:4]}"
        )
        return
    for mask in (torch.isnan, torch.isposinf, torch.isneginf):
        differs = mask(got) != mask(reference)
        assert not differs.any(), f"{label}: {mask.__name__} differs: {got[differs][:4]} not {reference[differs][:4]}"
    eps = torch.finfo(reference.dtype).eps
    allowed = 4 * scaled_error(reference, oracle) + 8 * eps
    error = scaled_error(got, oracle)
    assert error <= allowed, f"{label}: error {error:.3g}, allowed {allowed:.3g}"
