"""Writes in place whose result alone is read afterwards: the same operations without a write.

A trace calls what `h.mul_(a)` leaves by that operation's own name. Where no other name of that memory is read later,
a loop whose state is changed in place is a loop like others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.nouns.aten import ALIASING
from knowledge.compiler.problem import Op, Problem, Ref, Tensor, base_name, reads

_OTHER_TYPE = frozenset({"eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor", "logical_not"})
"""Operations whose result would have another type than what they are written over."""
_LEFT = _OTHER_TYPE | {"copy", "detach", "resize", "set"}


def without_writes(problem: Problem) -> tuple[Op, ...]:
    """The operations of a problem, those that can be without their writes."""
    if not any(_writes(op) for op in problem.ops):
        return problem.ops
    given = {each.name: each for each in (*problem.inputs, *problem.parameters) if isinstance(each, Tensor)}
    tensors = given | {each.name: each for op in problem.ops for each in op.results}
    roots: dict[str, str] = {}
    shared: dict[str, list[str]] = {}
    last = {name: place for place, op in enumerate(problem.ops) for name in reads(op)}
    last |= dict.fromkeys(problem.returns, len(problem.ops))
    kept = []
    for place, op in enumerate(problem.ops):
        for alias, source in aliases(op):
            root = roots[alias] = roots.get(source, source)
            shared.setdefault(root, [root]).append(alias)
        if _writes(op) and isinstance(op.args[0], Ref):
            root = roots.get(op.args[0].ref, op.args[0].ref)
            others = shared.setdefault(root, [root])
            alone = all(last.get(name, -1) <= place for name in others)
            if alone and root not in given and _of_one_type(op, tensors):
                op = op.model_copy(update={"target": op.target.replace("_.", ".", 1)})
            else:
                roots[op.results[0].name] = root
                others.append(op.results[0].name)
        kept.append(op)
    return tuple(kept)


def aliases(op: Op) -> Iterator[tuple[str, str]]:
    """The results that may share storage with an operand, each with that operand's name."""
    if base_name(op.target) in ALIASING and op.args:
        sources = op.args[0] if isinstance(op.args[0], tuple) else (op.args[0],) * len(op.results)
        for result, source in zip(op.results, sources, strict=False):
            if isinstance(source, Ref):
                yield result.name, source.ref


def _writes(op: Op) -> bool:
    name = base_name(op.target)
    return name.endswith("_") and name[:-1] not in _LEFT and len(op.results) == 1 and bool(op.args)


def _of_one_type(op: Op, tensors: Mapping[str, Tensor]) -> bool:
    """Whether the operation makes what it writes: numbers with a fraction, and masks besides."""
    (result,) = op.results
    operands = [each for name in reads(op) if (each := tensors.get(name))]
    same = all(each.dtype in (result.dtype, "bool") for each in operands)
    return same and "float" in result.dtype and bool(operands) and operands[0].shape == result.shape
