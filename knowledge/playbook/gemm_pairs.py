"""Two products of one operand in one form: what gated layers are, such as silu(x Wg) * (x Wu)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from knowledge.playbook import gemm_form
from knowledge.playbook.gemm_form import A, Axis, B, C, Form, Second
from knowledge.playbook.gemm_trace import PRODUCTS
from knowledge.playbook.gemm_views import UncoveredError
from knowledge.playbook.identifiers import identifiers
from knowledge.playbook.lowering import base_name
from knowledge.playbook.partition import reads
from knowledge.playbook.problem import Op, Problem


def form_of(problem: Problem) -> Form:
    """The product, or the pair of products, in canonical shape. Raises UncoveredError, saying what is in the way."""
    try:
        return gemm_form.form_of(problem)
    except UncoveredError:
        products = [op for op in problem.ops if base_name(op.target).removesuffix("_") in PRODUCTS]
        for made in products if len(products) == 2 else ():
            with suppress(UncoveredError):
                return _joined(problem, made)
        raise


def _joined(problem: Problem, made: Op) -> Form:
    """The pair, with `made` as the second product: what follows the other one reads it as it would an argument."""
    (result,) = made.results
    names = identifiers(argument.name for argument in problem.arguments)
    rest = problem.model_copy(
        update={"inputs": (*problem.inputs, result), "ops": tuple(op for op in problem.ops if op is not made)}
    )
    alone = problem.model_copy(
        update={"ops": _leading_to(problem.ops, made), "outputs": (result,), "returns": (result.name,)}
    )
    own = identifiers(argument.name for argument in rest.arguments)
    if any(own[name] != names[name] for name in names):
        raise UncoveredError("a product's name is an argument's.")
    first, second = gemm_form.form_of(rest), gemm_form.form_of(alone)
    if first.extras.count(own[result.name]) != 1:
        raise UncoveredError("two matrix products in one forward are covered where one is read once.")
    place = first.operands.index(own[result.name])
    pairs = list(zip(_loops(first), _loops(second), strict=False))
    if not _alike(first, second, place) or any(not _same(*pair, place) for pair in pairs):
        raise UncoveredError("two matrix products in one forward are covered where they share an operand.")
    return _merged(first, second, place)


def _leading_to(ops: tuple[Op, ...], last: Op) -> tuple[Op, ...]:
    """The operations that one needs, in order, and itself."""
    needed, found = {last.results[0].name}, []
    for op in reversed(ops):
        if needed & {result.name for result in op.results}:
            found.append(op)
            needed |= set(reads(op))
    return tuple(reversed(found))


def _loops(form: Form) -> Iterator[Axis]:
    yield from (form.m, form.n, form.k, *form.batch)


def _alike(first: Form, second: Form, place: int) -> bool:
    """Whether both are plain products of the same operand, in the same loops; it is read nowhere else."""
    kinds = first.kind == second.kind == "contract" and first.triangle is None
    return kinds and len(first.batch) == len(second.batch) and first.operands[A] == second.operands[A]


def _same(mine: Axis, its: Axis, place: int) -> bool:
    """Whether both products go along a loop in the same way, and the first reads the second where that writes."""
    return (mine.extent, mine.strides[A], mine.strides[B]) == (its.extent, its.strides[A], its.strides[B]) and (
        mine.strides[place] == its.strides[C] or mine.extent == 1
    )


def _merged(first: Form, second: Form, place: int) -> Form:
    """The first form without the second product among its steps' operands, and with that one's own."""
    kept = [at for at in range(len(first.operands)) if at != place]
    numbers = {at - 3: kept.index(at) - 3 for at in kept if at > C}
    base = len(kept) - 3

    def renamed(code: str) -> str:
        return re.sub(r"\bd(\d+)\b", lambda found: _name(int(found[1]), place, numbers), code)

    def moved(code: str) -> str:
        later = re.sub(r"\bd(\d+)\b", lambda found: f"d{int(found[1]) + base}", code)
        return re.sub(r"\bx\b", "u", later)

    def axis(mine: Axis, its: Axis) -> Axis:
        return Axis(mine.extent, (*(mine.strides[at] for at in kept), *its.strides[3:]))

    m, n, k, *batch = (axis(*pair) for pair in zip(_loops(first), _loops(second), strict=True))
    return replace(
        first, operands=(*(first.operands[at] for at in kept), *second.extras), m=m, n=n, k=k, batch=tuple(batch),
        codes=tuple(map(renamed, first.codes)),
        second=Second(second.operands[B], tuple(map(moved, second.codes))),
    )  # fmt: skip


def _name(number: int, place: int, numbers: dict[int, int]) -> str:
    return "u" if number == place - 3 else f"d{numbers[number]}"
