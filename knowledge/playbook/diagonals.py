"""Products with a diagonal matrix as what they are: rows or columns scaled by a vector."""

from __future__ import annotations

from knowledge.playbook.lowering import base_name
from knowledge.playbook.problem import Op, Problem, Ref, Tensor
from knowledge.playbook.strided import packed_strides

_PRODUCTS = frozenset(("mm", "mv", "matmul"))


def without_diagonals(problem: Problem) -> Problem:
    """The same forward with `diag(v) @ B` as v[:, None] * B and `B @ diag(v)` as B * v."""
    spread = {op.results[0].name: op for op in problem.ops if _spreads(problem, op)}
    spread = {name: op for name, op in spread.items() if _used_in_products(problem, name, spread)}
    ops: list[Op] = []
    for op in problem.ops:
        if op.results and op.results[0].name in spread:
            continue
        factor = next((k for k, arg in enumerate(op.args[:2]) if isinstance(arg, Ref) and arg.ref in spread), None)
        ops += [op] if factor is None else _scaling(op, spread, factor)
    return problem.model_copy(update={"ops": tuple(ops)}) if spread else problem


def _spreads(problem: Problem, op: Op) -> bool:
    """Whether the operation spreads a vector over the main diagonal of a matrix."""
    if base_name(op.target) not in ("diag", "diag_embed") or op.kwargs or any(op.args[1:2]):
        return False
    tensors = [each for each in (*problem.inputs, *problem.parameters) if isinstance(each, Tensor)]
    shapes = {each.name: each.shape for each in (*tensors, *(made for each in problem.ops for made in each.results))}
    source = op.args[0]
    return isinstance(source, Ref) and len(shapes.get(source.ref, ())) == 1


def _used_in_products(problem: Problem, name: str, spread: dict[str, Op]) -> bool:
    users = [op for op in problem.ops if any(isinstance(arg, Ref) and arg.ref == name for arg in op.args)]
    refs = [[arg.ref for arg in op.args[:2] if isinstance(arg, Ref)] for op in users]
    return (
        name not in problem.returns
        and all(base_name(op.target) in _PRODUCTS for op in users)
        and all(sum(ref in spread for ref in both) == 1 for both in refs)
    )


def _scaling(op: Op, spread: dict[str, Op], factor: int) -> list[Op]:
    """A product's operations with the diagonal factor replaced by its vector."""
    (diagonal,) = (arg.ref for arg in op.args[factor : factor + 1] if isinstance(arg, Ref))
    made = spread[diagonal].results[0]
    if len(op.results[0].shape) == 1:  # beside a vector
        return [Op(target="aten.mul.Tensor", args=(spread[diagonal].args[0], op.args[1 - factor]), results=op.results)]
    shape = (made.shape[0], 1) if factor == 0 else (1, made.shape[0])
    name = f"{op.results[0].name}_scale"
    vector = Tensor(name=name, shape=shape, strides=packed_strides(shape), dtype=made.dtype)
    dim = 1 if factor == 0 else 0
    return [
        Op(target="aten.unsqueeze.default", args=(spread[diagonal].args[0], dim), results=(vector,)),
        Op(target="aten.mul.Tensor", args=(Ref(ref=name), op.args[1 - factor]), results=op.results),
    ]
