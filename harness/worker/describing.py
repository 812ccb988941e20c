"""The describing job: import a task file, run it once, say what it is."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from harness.task import OpClass, Program, Signature, Task, Workload
from harness.worker.reference import Reference, Value, writable
from harness.worker.tracing import UntraceableError, trace

# By the operation's name, overloads left out. Convolutions are no GEMM here: their recipes and gates differ.
GEMM = frozenset({
    "mm", "bmm", "mv", "dot", "addmm", "addmv", "baddbmm", "linear", "matmul", "einsum", "inner", "outer",
    "tensordot",
})  # fmt: skip
REDUCTION = frozenset({
    "sum", "mean", "amax", "amin", "max", "min", "argmax", "argmin", "prod", "var", "var_mean", "std", "std_mean",
    "norm", "linalg_vector_norm", "logsumexp", "softmax", "_softmax", "log_softmax", "_log_softmax", "layer_norm",
    "native_layer_norm", "rms_norm", "_fused_rms_norm", "group_norm", "native_group_norm", "cumsum", "cumprod",
    "any", "all", "nll_loss", "cross_entropy_loss", "mse_loss",
})  # fmt: skip
RELABELLING = frozenset({
    "view", "reshape", "unsqueeze", "squeeze", "expand", "permute", "transpose", "t", "alias", "clone",
    "contiguous", "detach", "detach_", "lift_fresh_copy", "slice", "select", "_to_copy", "to", "flatten",
    "_unsafe_view",
})  # fmt: skip


def describe(source: str, name: str) -> dict[str, Any]:
    """The task as JSON-ready data. Raises `UserError` for a file that is no usable task."""
    reference = Reference(source, name)
    inputs = reference.inputs(seed=0)
    outputs = _run_checked(reference, inputs)
    signature = _signature(reference, inputs, outputs)
    program, failure = _program(reference, inputs, signature)
    workload = Workload(
        name="given", signature=signature, flops=_flops(reference, inputs), bytes_moved=_bytes(signature)
    )
    task = Task(
        name=name,
        source=source,
        workloads=(workload,),
        op_class=op_class(program),
        program=program,
        trace_failure=failure,
    )
    return task.model_dump(mode="json")


def op_class(program: Program | None) -> OpClass:
    """What the forward mostly is: its heaviest kind of operation decides."""
    if program is None:
        return "other"
    names = {op.target.split(".")[1].rstrip("_") or op.target for op in program.ops}
    if names & GEMM:
        return "gemm"
    if names & REDUCTION:
        return "reduction"
    if all(_is_pointwise(op.target) or op.target.split(".")[1] in RELABELLING for op in program.ops):
        return "elementwise"
    return "other"


def _is_pointwise(target: str) -> bool:
    _, name, overload = target.split(".")
    operation = getattr(getattr(torch.ops.aten, name), overload)
    return torch.Tag.pointwise in operation.tags


def _run_checked(reference: Reference, inputs: list[Value]) -> list[torch.Tensor]:
    before = [value.clone() if isinstance(value, torch.Tensor) else value for value in inputs]
    outputs = reference.run(inputs)
    for position, (was, now) in enumerate(zip(before, inputs, strict=True)):
        if isinstance(was, torch.Tensor) and isinstance(now, torch.Tensor) and not _same(was, now):
            raise reference.error(
                f"forward changes its input {position} in place", "Let it work on a copy, or return the new value."
            )
    for position, output in enumerate(outputs):
        if output.is_floating_point() and output.isnan().any():
            raise reference.error(
                f"output {position} holds NaN on the file's own inputs", "Change get_inputs so that it is defined."
            )
    return [writable(output) for output in outputs]


def _same(was: torch.Tensor, now: torch.Tensor) -> bool:
    return bool(((was == now) | (was != was)).all())


def _signature(reference: Reference, inputs: list[Value], outputs: list[torch.Tensor]) -> Signature:
    parameters = reference.parameters()
    names = _distinct(reference.input_names(len(inputs)), set(parameters))
    labels = ["output"] if len(outputs) == 1 else [f"output{i}" for i in range(len(outputs))]
    labels = _distinct(labels, {*parameters, *names})
    return Signature(
        inputs=tuple(reference.value_spec(name, value) for name, value in zip(names, inputs, strict=True)),
        parameters=tuple(reference.tensor_spec(name, tensor) for name, tensor in parameters.items()),
        outputs=tuple(reference.tensor_spec(name, tensor) for name, tensor in zip(labels, outputs, strict=True)),
    )


def _distinct(names: list[str], taken: set[str]) -> list[str]:
    """The names, with underscores added where they are taken: a forward's argument may be called like a parameter."""
    chosen: list[str] = []
    for name in names:
        while name in taken:
            name += "_"
        taken = {*taken, name}
        chosen.append(name)
    return chosen


def _program(reference: Reference, inputs: list[Value], signature: Signature) -> tuple[Program | None, str]:
    try:
        return trace(reference, inputs, signature.inputs), ""
    except UntraceableError as error:
        return None, str(error)


def _flops(reference: Reference, inputs: list[Value]) -> int:
    with FlopCounterMode(display=False) as counter:
        reference.run(inputs)
    return int(counter.get_total_flops())


def _bytes(signature: Signature) -> int:
    return sum(spec.nbytes for spec in signature.arguments if spec.kind == "tensor")
