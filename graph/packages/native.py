"""A kernel's C++ for plain PyTorch: its source behind what stands for TVM-FFI, and the binding that calls it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from graph.export.drop_in import environment
from graph.export.places import places
from harness.nouns.candidate import Candidate, TargetName
from harness.nouns.devices import on_gpu
from harness.nouns.errors import UserError
from harness.nouns.task import DType, ScalarSpec, Signature, Task, TensorSpec
from harness.wire.entry import ENTRY_HEADERS

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_REPLACED = re.compile(r"^([ \t]*)(#[ \t]*include[ \t]*[<\"](?:tvm/ffi|dlpack)/[^>\"]*[>\"])", re.MULTILINE)
_NAMED = re.compile(r"\b(?:ffi\s*::\s*(\w+)|(TVMFFI\w+|TVM_FFI_\w+))")
_CUTE = re.compile(r"\b(?:cute|cutlass)\b|\bCUT(?:E|LASS)_")
_OFFERED = frozenset({
    "TensorView", "Tensor", "ShapeView", "TVMFFIEnvGetStream", "TVMFFIEnvTensorAlloc", "TVMFFIStreamHandle",
    "TVMFFIObjectHandle", "TVM_FFI_THROW", "TVM_FFI_DLL_EXPORT_TYPED_FUNC", "TVM_FFI_ICHECK", "TVM_FFI_ICHECK_EQ",
    "TVM_FFI_ICHECK_NE", "TVM_FFI_ICHECK_LT", "TVM_FFI_ICHECK_LE", "TVM_FFI_ICHECK_GT", "TVM_FFI_ICHECK_GE",
})  # fmt: skip
"""What `tensor_view.hpp` defines of TVM-FFI."""
_PRELUDE = "".join(f"#include <{name}>\n" for name in ENTRY_HEADERS if "/" not in name)

_TYPES: dict[DType, tuple[str, str]] = {
    "float32": ("at::kFloat", "{kDLFloat, 32, 1}"),
    "float64": ("at::kDouble", "{kDLFloat, 64, 1}"),
    "float16": ("at::kHalf", "{kDLFloat, 16, 1}"),
    "bfloat16": ("at::kBFloat16", "{kDLBfloat, 16, 1}"),
    "int8": ("at::kChar", "{kDLInt, 8, 1}"),
    "uint8": ("at::kByte", "{kDLUInt, 8, 1}"),
    "int16": ("at::kShort", "{kDLInt, 16, 1}"),
    "int32": ("at::kInt", "{kDLInt, 32, 1}"),
    "int64": ("at::kLong", "{kDLInt, 64, 1}"),
    "bool": ("at::kBool", "{kDLBool, 8, 1}"),
}
BUILD_WORDS: dict[TargetName, tuple[str, ...]] = {
    "cpu": ("-O3", "-march=native", "-fopenmp", "-fvisibility=hidden", "-fno-math-errno", "-fno-trapping-math"),
    "cuda": (
        *("-std=c++17", "-O3", "--expt-relaxed-constexpr", "--expt-extended-lambda"),
        *("-Xcompiler", "-fvisibility=hidden", "-diag-suppress", "20012,20013,20014,20015"),
    ),
}
"""The judge's flags that matter, beside those that PyTorch's build adds."""
_NUMBERS = {"float": "double", "int": "int64_t", "bool": "bool"}


@dataclass(frozen=True)
class Native:
    """The texts of one kernel. `view` comes first in each file, `kernel` last where all are one file."""

    target: TargetName
    view: str
    binding: str
    kernel: str
    operator: str
    """What checks the arguments, allocates the outputs and calls the kernel."""
    schema: str
    cute: bool
    """Whether the kernel needs CuTe's headers."""


def native(task: Task, candidate: Candidate) -> Native:
    """The texts for a kernel. Raises `UserError` where they cannot express it."""
    source = _COMMENT.sub(" ", candidate.source)
    _require_offered(source)
    if not any(isinstance(spec, TensorSpec) for spec in _taken(task.signature)):
        raise UserError(f"{task.name} takes no tensor and has no weights.", "Export it with --form folder.")
    cute, cuda = _CUTE.search(source) is not None, on_gpu(candidate.target)
    text = environment().get_template
    return Native(
        target=candidate.target,
        view=text("packages/tensor_view.hpp.j2").render(),
        binding=text("packages/binding.cpp.j2").render(cuda=cuda),
        kernel=_kernel(task, candidate, cute=cute),
        operator=text("packages/operator.cpp.j2").render(_operator(task, candidate.target), cuda=cuda),
        schema=_schema(task),
        cute=cute,
    )


def library(namespace: str, task: Task, kernel: Native) -> str:
    """What registers the kernel's operator, called like its direction, under a namespace."""
    made = environment().get_template("packages/library.cpp.j2")
    cuda = on_gpu(kernel.target)
    return made.render(namespace=namespace, direction=task.direction, schema=kernel.schema, cuda=cuda)


def operator_namespace(*judged: tuple[Task, Candidate]) -> str:
    """Of a kernel's operator: by a digest of what it and its gradients compute, the same in every process."""
    what = json.dumps([[candidate.source, task.source, task.digest] for task, candidate in judged])
    return f"cutegen_{hashlib.sha256(what.encode()).hexdigest()[:16]}"


def require_one_workload(task: Task) -> None:
    """Raises `UserError` for a task of several."""
    if len(task.workloads) > 1:
        raise UserError(
            f"The kernel of {task.name} is for {len(task.workloads)} workloads, and this form holds one.",
            "Export it with --form folder, or run the suite with --each-workload.",
        )


def _require_offered(source: str) -> None:
    found = [name for match in _NAMED.findall(source) if (name := match[0] or match[1]) not in _OFFERED]
    if found:
        raise UserError(
            f"The kernel uses {found[0]} of TVM-FFI, which this form has no counterpart of.",
            "Export it with --form folder.",
        )


def _kernel(task: Task, candidate: Candidate, *, cute: bool) -> str:
    """The source with its own lines as they were; what its includes named of TVM-FFI stands before it."""
    replaced = _REPLACED.sub(r"\1// \2", candidate.source)
    headers = ("#include <cute/tensor.hpp>\n" if cute else "") + _PRELUDE
    entry = f"#undef CUTEGEN_ENTRY\n#define CUTEGEN_ENTRY cutegen_{task.direction}\n"
    return f'{headers}{entry}#line 1 "kernel"\n{replaced}'


def _taken(signature: Signature) -> tuple[TensorSpec | ScalarSpec, ...]:
    return (*signature.inputs, *signature.parameters)


def _operator(task: Task, target: TargetName) -> dict[str, object]:
    taken, outputs = _taken(task.signature), task.signature.outputs
    tensors = [k for k, spec in enumerate(taken) if isinstance(spec, TensorSpec)]
    several = len(outputs) > 1
    results = [f"std::get<{k}>(made)" if several else "made" for k in range(len(outputs))]
    return {
        "direction": task.direction,
        "workloads": [
            {
                "tensors": [_tensor(spec) for spec in _taken(each.signature) if isinstance(spec, TensorSpec)],
                "outputs": [_tensor(spec) for spec in each.signature.outputs],
            }
            for each in task.workloads
        ],
        "tensors": [f"a{k}" for k in tensors],
        "places": [(tensors.index(k), end) for k, _, end in places(task, target)],
        "outputs": outputs,
        "result": f"std::tuple<{', '.join(['at::Tensor'] * len(outputs))}>" if several else "at::Tensor",
        "parameters": ", ".join(f"{_parameter(spec)} a{k}" for k, spec in enumerate(taken)),
        "arguments": ", ".join(f"a{k}" for k in range(len(taken))),
        "given": [*_given(taken), *(f"tensor({each}, fits.written[{k}])," for k, each in enumerate(results))],
    }


def _given(taken: tuple[TensorSpec | ScalarSpec, ...]) -> Iterator[str]:
    count = 0
    for k, spec in enumerate(taken):
        if isinstance(spec, TensorSpec):
            yield f"tensor(t{count}, fits.taken[{count}]),"
            count += 1
        else:
            yield f"number(double(a{k}), int64_t(a{k})),"


def _tensor(spec: TensorSpec) -> dict[str, str]:
    kind, dtype = _TYPES[spec.dtype]
    name = json.dumps(spec.name)
    shape, strides = (f"{{{', '.join(map(str, each))}}}" for each in (spec.shape, spec.strides))
    return {"name": name, "type": kind, "dtype": dtype, "shape": shape, "strides": strides}


def _parameter(spec: TensorSpec | ScalarSpec) -> str:
    return "at::Tensor const&" if isinstance(spec, TensorSpec) else _NUMBERS[spec.type]


def _schema(task: Task) -> str:
    kinds = ["Tensor" if isinstance(spec, TensorSpec) else spec.type for spec in _taken(task.signature)]
    outputs = ["Tensor"] * len(task.signature.outputs)
    returned = outputs[0] if len(outputs) == 1 else f"({', '.join(outputs)})"
    return f"({', '.join(f'{kind} a{k}' for k, kind in enumerate(kinds))}) -> {returned}"
