"""Traces modules into problems, compiles what the playbook writes as the judge does, and calls it on torch tensors."""

from __future__ import annotations

import hashlib
import re
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import torch
import tvm_ffi
from torch.export.graph_signature import InputKind

from harness.building.cpu_build import CpuToolchain, compile_flags, link_flags, precompiled_prelude
from harness.building.ninja_file import PRELUDE
from harness.checks.float8 import saturates
from harness.isolation.tiers import resolve_tier
from harness.nouns.task import TensorSpec, TracedOp
from harness.trusted.facts.complexes import ComplexSpec, in_pairs
from harness.trusted.facts.parts import parts_of
from harness.trusted.facts.programs import Reader
from harness.trusted.facts.spelled import Spelled
from knowledge.compiler.problem import Device, Problem

# As few kernels go into one file by themselves; more are shared between two compilers.
FEW = 6
# With the condition around them, so that a kernel that includes too little under one does not build beside others.
INCLUDES = re.compile(r"^#if[^\n]*\n(?:#include[^\n]*\n)+#endif[^\n]*\n|^#include[^\n]*\n", re.MULTILINE)
MACHINE = Device(threads=2, simd_floats=8)


def _plain(value: Any, names: dict[str, str]) -> Any:
    """A traced argument as the judge's task spells it."""
    if isinstance(value, torch.fx.Node):
        return {"ref": names.get(value.name, value.name)}
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).removeprefix("torch.")}
    if isinstance(value, torch.device | torch.layout | torch.memory_format | complex):
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
    value = node.meta.get("val")
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
    with Spelled():
        exported = torch.export.export(module, inputs)
    if parts := parts_of(exported):
        exported = exported.run_decompositions(dict(parts))
    nodes = list(exported.graph.nodes)
    signature = exported.graph_signature
    literals = Reader({}, "export")
    for each in signature.input_specs:
        if each.kind is InputKind.CONSTANT_TENSOR:
            literals.literal(each.arg.name, exported.constants[each.target])
    renames = {**signature.inputs_to_parameters, **signature.inputs_to_buffers, **literals.names}
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
            "ops": _without_complex(
                [each.model_dump() for each in literals.ops]
                + [
                    _op(node, renames)
                    for node in nodes
                    if node.op == "call_function" and "getitem" not in str(node.target)
                ],
                [
                    spec(renames.get(node.name, node.name), node.meta["val"])
                    for node in nodes
                    if node.op == "placeholder" and isinstance(node.meta["val"], torch.Tensor)
                ],
            ),
            "returns": [renames.get(node.name, node.name) for node in output],
            "device": device.model_dump(),
            "saturates": saturates(),
        }
    )


def _without_complex(ops: list[dict[str, Any]], given: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As the judge's reader has them."""
    if not any(each["dtype"].startswith("complex") for op in ops for each in op["results"]):
        return ops
    traced = [
        TracedOp.model_validate(op | {"results": tuple(
            (ComplexSpec if each["dtype"].startswith("complex") else TensorSpec)(**each) for each in op["results"])})
        for op in ops
    ]  # fmt: skip
    return [op.model_dump() for op in in_pairs(traced, [TensorSpec(**each) for each in given])]


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
            self.forward = self._three if arity == 3 else self._four  # type: ignore[method-assign]

    def _one(self, a: Any) -> Any:
        return self.function(a)

    def _two(self, a: Any, b: Any) -> Any:
        return self.function(a, b)

    def _three(self, a: Any, b: Any, c: Any) -> Any:
        return self.function(a, b, c)

    def _four(self, a: Any, b: Any, c: Any, d: Any) -> Any:
        return self.function(a, b, c, d)


class Kernel(NamedTuple):
    """Where a compiled kernel is: its library, and its entry there."""

    library: Path
    entry: str = "run"


class Compiler:
    """The judge's g++, flags and precompiled header, without its walls. What was built once is kept by its source."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.flags = (*compile_flags(), *link_flags(), PRELUDE)
        self._built: dict[str, Kernel] = {}

    @cached_property
    def _command(self) -> tuple[str, ...]:
        toolchain = CpuToolchain()
        prelude = precompiled_prelude(toolchain, resolve_tier("auto"))
        return (*toolchain.compiler.command, *compile_flags(), "-include", str(prelude))

    def build(self, source: str) -> Kernel:
        """The kernel, alone in its library; a failed compilation fails the test with g++'s own words."""
        if source not in self._built:
            self._built[source] = Kernel(self._library(source))
        return self._built[source]

    def build_all(self, sources: Sequence[str]) -> list[Kernel]:
        """Many kernels in one library or two: what all use of CuTe and tvm-ffi takes longer than most of them."""
        missing = [source for source in dict.fromkeys(sources) if source not in self._built]
        parts = [missing[::2], missing[1::2]] if len(missing) > FEW else [missing] * bool(missing)
        with ThreadPoolExecutor(2) as pool:
            for part, library in zip(parts, pool.map(self._library, map(joined, parts)), strict=True):
                self._built |= {source: Kernel(library, f"run{number}") for number, source in enumerate(part)}
        return [self._built[source] for source in sources]

    def _library(self, source: str) -> Path:
        file = self.folder / f"{hashlib.sha256(source.encode()).hexdigest()[:16]}.cpp"
        file.write_text(source)
        library = file.with_suffix(".so")
        command = [*self._command, str(file), *link_flags(), "-o", str(library)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[:6000]
        return library


def joined(sources: Sequence[str]) -> str:
    """Several kernels as one file, each in a namespace of its own, with the entries run0, run1, ..."""
    includes = dict.fromkeys(lines for source in sources for lines in INCLUDES.findall(source))
    parts = []
    for number, source in enumerate(sources):
        text = INCLUDES.sub("", source)
        entry = text.replace("TVM_FFI_DLL_EXPORT_TYPED_FUNC(run,", f"TVM_FFI_DLL_EXPORT_TYPED_FUNC(run{number},")
        parts.append(f"namespace kernel{number} {{\n{entry}\n}}")
    return "".join(includes) + "\n".join(parts)


def call(
    kernel: Kernel, problem: Problem, inputs: Sequence[Any], state: dict[str, torch.Tensor] | None = None
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
    getattr(tvm_ffi.load_module(str(kernel.library)), kernel.entry)(*inputs, *parameters, *outputs)
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
    if reference.dtype.itemsize == 1 and reference.dtype.is_floating_point:
        got, reference = got.float().nan_to_num(nan=1e9), reference.float().nan_to_num(nan=1e9)
        assert torch.equal(got, reference), f"{label}: {got[got != reference][:4]}"
        return
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
