"""Products with a vector as sums along rows, so that the row kernels write them with whatever stands around them."""

from __future__ import annotations

from knowledge.playbook.expressions import Node, UnwritableError
from knowledge.playbook.lowering import Lower, Lowering
from knowledge.playbook.ops_pointwise import multiply, result_dtype
from knowledge.playbook.problem import Op


def _product(state: Lowering, op: Op) -> Node:
    """mm, mv, dot and matmul of a matrix and a vector, either of which may come first."""
    left, right = (state.operand(argument, result_dtype(op)) for argument in op.args[:2])
    if len(right.shape) == 1:
        return _summed(state, multiply(state, left, right), -1, keepdim=False)
    if len(right.shape) == 2 and right.shape[1] == 1:
        vector = state.graph.reshape(right, right.shape[:1])
        return _summed(state, multiply(state, left, vector), -1, keepdim=True)
    if len(right.shape) == 2 and (len(left.shape) == 1 or left.shape[:-1] == (1,)):
        column = state.graph.reshape(left, (*left.shape[-1:], 1))
        return _summed(state, multiply(state, right, column), 0, keepdim=len(left.shape) == 2)
    raise UnwritableError(op.target)


def _linear(state: Lowering, op: Op) -> Node:
    """A layer with one output: (input, weight, bias)."""
    x, weight = (state.operand(argument, result_dtype(op)) for argument in op.args[:2])
    if weight.shape[:-1] != (1,):
        raise UnwritableError(op.target)
    product = multiply(state, x, state.graph.reshape(weight, weight.shape[1:]))
    total = _summed(state, product, -1, keepdim=True)
    bias = state.argument(op, 2, "bias")
    if bias is None:
        return total
    return state.graph.compute("add", total.dtype, total, state.operand(bias, total.dtype))


def _summed(state: Lowering, node: Node, dim: int, *, keepdim: bool) -> Node:
    return state.graph.reduce("sum", node.dtype, node, (dim % len(node.shape),), keepdim)


VECTOR_PRODUCTS: dict[str, Lower] = {
    **dict.fromkeys(("mm", "mv", "dot", "matmul"), _product),
    "linear": _linear,
}
