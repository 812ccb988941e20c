"""What nodes over strided loads mean, with torch: strided loads are as_strided, primitives are torch's functions.

Nothing is compiled, so that many programs can be tried where a kernel would take seconds each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import torch

from knowledge.compiler.ir.dtypes import NARROW
from knowledge.compiler.ir.expressions import Node, postorder
from knowledge.compiler.lower.lowering import Lowered
from knowledge.compiler.problem import Argument, Atom, DTypeArg, Problem, Ref, Tensor

Function = Callable[..., torch.Tensor]
Values = Mapping[str, Any]

SAME_NAME = (
    "add", "sub", "mul", "div", "neg", "lt", "le", "gt", "ge", "eq", "ne", "maximum", "minimum", "fmax", "fmin", "abs",
    "sqrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan",
    "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "atan2", "hypot", "pow", "remainder", "fmod",
    "floor", "ceil", "trunc", "round", "sign", "lgamma", "digamma", "erfinv", "copysign", "nextafter", "gcd",
)  # fmt: skip
COMPUTED: dict[str, Function] = {name: getattr(torch, name) for name in SAME_NAME} | {
    "and": torch.bitwise_and, "or": torch.bitwise_or, "xor": torch.bitwise_xor, "invert": torch.bitwise_not,
    "not": torch.logical_not, "zeta": torch.special.zeta, "shift_left": torch.bitwise_left_shift,
    "shift_right": torch.bitwise_right_shift, "select": torch.where, "int_pow": torch.pow, "int_fmod": torch.fmod,
    "floor_divide": lambda x, y: torch.div(x, y, rounding_mode="floor"),
    "truncated_divide": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
}  # fmt: skip
# Over the last dimension, into which all that are reduced have been merged.
REDUCED: dict[str, Function] = {
    "sum": lambda x: x.sum(-1), "prod": lambda x: x.prod(-1), "amax": lambda x: x.amax(-1),
    "amin": lambda x: x.amin(-1), "any": lambda x: x.any(-1), "all": lambda x: x.all(-1),
    "argmax": lambda x: x.argmax(-1), "argmin": lambda x: x.argmin(-1),
}  # fmt: skip


def replayed(problem: Problem, tensors: Values) -> list[torch.Tensor]:
    """The traced operations, each by torch."""
    known = {name: value.clone() for name, value in tensors.items()}

    def atom(argument: Atom) -> Any:
        return known[argument.ref] if isinstance(argument, Ref) else argument

    def read(argument: Argument) -> Any:
        assert not isinstance(argument, DTypeArg)
        return [atom(each) for each in argument] if isinstance(argument, tuple) else atom(argument)

    for op in problem.ops:
        _, name, overload = op.target.split(".")
        function = getattr(getattr(torch.ops.aten, name), overload)
        made = function(*map(read, op.args), **{key: read(value) for key, value in op.kwargs.items()})
        many = made if isinstance(made, tuple | list) else (made,)
        known |= {result.name: value for result, value in zip(op.results, many, strict=True)}
    return [known[name] for name in problem.returns]


def evaluate(problem: Problem, lowered: Lowered, tensors: Values) -> list[torch.Tensor]:
    """The module's outputs, computed node by node."""
    values: dict[int, torch.Tensor] = {}
    for node in postorder(tuple(node for _, node in lowered.outputs)):
        values[id(node)] = _value(node, values, tensors)
    return [
        _stored(values[id(node)], tensor, output)
        for (tensor, node), output in zip(lowered.outputs, problem.outputs, strict=True)
    ]


def _stored(value: torch.Tensor, tensor: Tensor, output: Tensor) -> torch.Tensor:
    """An output's memory, into which its value goes by the strides of the loops: of one number a row, the first."""
    size = 1 + sum((extent - 1) * step for extent, step in zip(output.shape, output.strides, strict=True))
    memory = torch.zeros(size, dtype=getattr(torch, output.dtype))
    own = value[tuple(map(slice, tensor.shape))] if value.dim() else value
    memory.as_strided(tensor.shape, tensor.strides).copy_(own)
    return memory.as_strided(output.shape, output.strides)


def _value(node: Node, values: Mapping[int, torch.Tensor], tensors: Values) -> torch.Tensor:
    operands = [values[id(arg)] for arg in node.args]
    if node.kind == "load":
        return _kept(_strided(tensors[node.op], node), node.dtype)
    if node.kind in ("const", "scalar"):
        number = node.payload[0] if node.kind == "const" else tensors[node.op]
        exact = torch.tensor(number, dtype=torch.float64) if isinstance(number, float) else torch.tensor(number)
        return _kept(exact.to(getattr(torch, node.dtype)), node.dtype)
    if node.kind == "reduce":
        return reduced(node, operands[0])
    if node.kind == "gathered":
        kept = [1 if dim in node.args[0].payload else extent for dim, extent in enumerate(node.shape)]
        return operands[0].reshape(kept).expand(node.shape)
    assert node.kind == "compute", node.kind
    return computed(node, operands)


def computed(node: Node, operands: list[torch.Tensor]) -> torch.Tensor:
    """A primitive's result. Halves are computed in float32 and rounded by a cast alone, as in the kernels."""
    if node.op != "cast":
        return COMPUTED[node.op](*operands).to(
            _kept(torch.empty(0, dtype=getattr(torch, node.dtype)), node.dtype).dtype
        )
    return _kept(operands[0].to(getattr(torch, node.dtype)), node.dtype)


def reduced(node: Node, operand: torch.Tensor) -> torch.Tensor:
    """A reduction's result; the dimensions that it keeps are in their order."""
    dims = [int(dim) for dim in node.payload]
    kept = [dim for dim in range(len(node.shape)) if dim not in dims]
    together = prod(node.shape[dim] for dim in dims)
    wide = operand.expand(node.shape).permute([*kept, *dims]).reshape([*(node.shape[dim] for dim in kept), together])
    wide = wide.byte() if node.op.startswith("arg") and wide.dtype == torch.bool else wide
    return REDUCED[node.op](wide).to(_kept(torch.empty(0, dtype=getattr(torch, node.dtype)), node.dtype).dtype)


def _kept(value: torch.Tensor, dtype: str) -> torch.Tensor:
    return value.float() if dtype in NARROW else value


def _strided(tensor: torch.Tensor, node: Node) -> torch.Tensor:
    """A load; torch has no negative strides, so what goes backwards is read forwards and turned."""
    backwards = [dim for dim, step in enumerate(node.strides) if step < 0]
    first = node.offset + sum((node.shape[dim] - 1) * node.strides[dim] for dim in backwards)
    strides = tuple(abs(step) for step in node.strides)
    return tensor.as_strided(node.shape, strides, tensor.storage_offset() + first).flip(backwards)
