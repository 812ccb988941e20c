"""What the playbook's expressions mean, with torch: strided loads are as_strided, primitives are torch's functions.

Nothing is compiled, so that many random programs can be tried where a kernel would take seconds each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from knowledge.playbook.expressions import Node, postorder
from knowledge.playbook.lowering import Lowered
from knowledge.playbook.problem import Problem

Function = Callable[..., torch.Tensor]

COMPUTED: dict[str, Function] = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "neg": torch.neg,
    "lt": torch.lt, "le": torch.le, "gt": torch.gt, "ge": torch.ge, "eq": torch.eq, "ne": torch.ne,
    "and": torch.bitwise_and, "or": torch.bitwise_or, "not": torch.logical_not, "select": torch.where,
    "maximum": torch.maximum, "minimum": torch.minimum, "abs": torch.abs, "sqrt": torch.sqrt, "exp": torch.exp,
    "expm1": torch.expm1, "log1p": torch.log1p, "tanh": torch.tanh, "floor": torch.floor, "sign": torch.sign,
}  # fmt: skip
REDUCED: dict[str, Function] = {
    "sum": lambda x, dims: x.sum(dims),
    "amax": lambda x, dims: x.amax(dims),
    "amin": lambda x, dims: x.amin(dims),
}


def evaluate(problem: Problem, lowered: Lowered, tensors: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
    """The module's outputs, computed node by node."""
    values: dict[int, torch.Tensor] = {}
    for node in postorder(tuple(node for _, node in lowered.outputs)):
        values[id(node)] = _value(node, values, tensors)
    made = [values[id(node)].expand(tensor.shape) for tensor, node in lowered.outputs]
    return [value.reshape(output.shape) for value, output in zip(made, problem.outputs, strict=True)]


def _value(node: Node, values: Mapping[int, torch.Tensor], tensors: Mapping[str, torch.Tensor]) -> torch.Tensor:
    operands = [values[id(arg)] for arg in node.args]
    if node.kind == "load":
        return _strided(tensors[node.op], node)
    if node.kind == "const":
        return torch.tensor(node.payload[0], dtype=getattr(torch, node.dtype))
    if node.kind == "reduce":
        return REDUCED[node.op](operands[0].expand(node.shape), tuple(int(dim) for dim in node.payload))
    if node.kind == "gathered":
        return operands[0].contiguous().as_strided(node.shape, node.strides)
    assert node.kind == "compute", node.kind
    dtype = getattr(torch, node.dtype)
    return (operands[0] if node.op == "cast" else COMPUTED[node.op](*operands)).to(dtype)


def _strided(tensor: torch.Tensor, node: Node) -> torch.Tensor:
    """A load; torch has no negative strides, so what goes backwards is read forwards and turned."""
    backwards = [dim for dim, step in enumerate(node.strides) if step < 0]
    first = node.offset + sum((node.shape[dim] - 1) * node.strides[dim] for dim in backwards)
    strides = tuple(abs(step) for step in node.strides)
    return tensor.as_strided(node.shape, strides, tensor.storage_offset() + first).flip(backwards)
