"""One forward traced at several sizes as one problem over sizes: what differs between the traces follows from them.

A dimension of an argument that differs is a size of its own; dimensions that always agree are one. Any other number of
the traces that differs (a stride, the shape of a view) is looked for among their products, with a whole factor or
divisor, and their sums with a whole number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, combinations_with_replacement
from math import lcm, prod
from typing import Any

from knowledge.playbook.expressions import UnwritableError
from knowledge.playbook.problem import Op, Problem, Scalar, Tensor
from knowledge.playbook.sizes import STAND_INS, Size

# Sizes multiplied to one number: of a tensor's elements, at most so many dimensions differ.
_FACTORS = 4


def generals(problem: Problem) -> Iterator[Problem]:
    """The problem over sizes of which all its shapes are cases: dimensions apart, then multiples of each other as one.

    Raises `UnwritableError` naming what is no such number.
    """
    every = (problem, *problem.others)
    if any(len(each.ops) != len(problem.ops) for each in every):
        raise UnwritableError("a forward that takes other operations at other sizes")
    for together in (False, True):
        yield _general(every, _Fit(every, together))


def _general(every: tuple[Problem, ...], fit: _Fit) -> Problem:
    first = every[0]
    groups: dict[str, Any] = {
        kind: tuple(_argument(fit, each) for each in zip(*(getattr(one, kind) for one in every), strict=True))
        for kind in ("inputs", "parameters", "outputs")
    }
    ops = tuple(_op(fit, each) for each in zip(*(one.ops for one in every), strict=True))
    told: dict[str, Any] = {name: getattr(first, name) for name in ("target", "returns", "device", "precision")}
    return Problem.model_construct(**told, **groups, ops=ops, others=())


class _Fit:
    """Finds what a number is that has these values in the traces. `together`: a dimension may be a multiple of another.

    A dimension of which the forward takes a part counts in such parts: so the part is exact.
    """

    def __init__(self, every: tuple[Problem, ...], together: bool) -> None:
        self.known: dict[tuple[int, ...], int] = {}
        self.products: dict[tuple[int, ...], int] = {}
        parts = {*_extents([op.results for op in each.ops] for each in every)}
        for values in _extents((each.inputs, each.parameters) for each in every):
            if values in self.known or (together and any(_times(values, have) for have in self.known)):
                continue
            if len(self.known) == len(STAND_INS):
                raise UnwritableError(f"more than {len(STAND_INS)} sizes that differ between workloads")
            cut = [values[0] // part[0] for part in parts if part[0] and _times(values, part)]
            self.known[values] = Size.named(len(self.known)) * lcm(*cut)
        self.products = dict(reversed([*self._products()]))

    def _products(self) -> Iterator[tuple[tuple[int, ...], int]]:
        for count in range(1, _FACTORS + 1):
            for chosen in combinations_with_replacement(self.known, count):
                made = prod((self.known[each] for each in chosen[1:]), start=self.known[chosen[0]])
                yield tuple(map(prod, zip(*chosen, strict=True))), made

    def __call__(self, values: tuple[int, ...], where: str) -> int:
        """A number, by its value in each trace."""
        if len({*values}) == 1:
            return values[0]
        return next(self._found(values), None) or self._unknown(values, where)

    def _found(self, values: tuple[int, ...]) -> Iterator[int]:
        if values in self.products:
            yield self.products[values]
        yield from (made * times for have, made in self.products.items() if (times := _times(values, have)))
        yield from (made // by for have, made in self.products.items() if (by := _times(have, values)))
        for have, made in self.known.items():
            apart = {one - each for one, each in zip(values, have, strict=True)}
            if len(apart) == 1:
                yield made + apart.pop()

    @staticmethod
    def _unknown(values: tuple[int, ...], where: str) -> int:
        shown = ", ".join(map(str, dict.fromkeys(values)))
        raise UnwritableError(f"a number of {where} that follows from no size of the arguments ({shown})")


def _times(values: tuple[int, ...], have: tuple[int, ...]) -> int:
    """How many times the one the other is, where that is more than once and always the same; else 0."""
    times = values[0] // have[0] if have[0] else 0
    return times if times > 1 and all(one == each * times for one, each in zip(values, have, strict=True)) else 0


def _extents(traces: Iterable[Iterable[Sequence[Tensor | Scalar]]]) -> Iterator[tuple[int, ...]]:
    """The dimensions of some tensors that differ between the traces, each by its values."""
    for tensors in zip(*(chain.from_iterable(each) for each in traces), strict=True):
        shapes = [each.shape for each in tensors if isinstance(each, Tensor)]
        if len({len(each) for each in shapes}) == 1:
            yield from (values for values in zip(*shapes, strict=True) if len({*values}) > 1)


def _argument(fit: _Fit, found: tuple[Tensor | Scalar, ...]) -> Tensor | Scalar:
    first = found[0]
    if isinstance(first, Scalar):
        return first
    return _tensor(fit, tuple(each for each in found if isinstance(each, Tensor)), first.name)


def _tensor(fit: _Fit, found: tuple[Tensor, ...], where: str) -> Tensor:
    if len({(each.dtype, len(each.shape)) for each in found}) > 1:
        raise UnwritableError(f"workloads of several element types or ranks ({where})")
    sizes = {
        kind: tuple(fit(values, where) for values in zip(*(getattr(each, kind) for each in found), strict=True))
        for kind in ("shape", "strides")
    }
    return found[0].model_copy(update=sizes)


def _op(fit: _Fit, found: tuple[Op, ...]) -> Op:
    first = found[0]
    if any((each.target, len(each.args), [*each.kwargs]) != (first.target, len(first.args), [*first.kwargs])
           for each in found):  # fmt: skip
        raise UnwritableError(f"{first.target} in the place of another operation at another size")
    args = tuple(_taken(fit, each, first.target) for each in zip(*(one.args for one in found), strict=True))
    kwargs = {name: _taken(fit, tuple(each.kwargs[name] for each in found), first.target) for name in first.kwargs}
    results = tuple(_tensor(fit, each, first.target) for each in zip(*(one.results for one in found), strict=True))
    return Op.model_construct(target=first.target, args=args, kwargs=kwargs, results=results)


def _taken(fit: _Fit, values: tuple[Any, ...], where: str) -> Any:
    """One argument of an operation."""
    first = values[0]
    if all(each == first and type(each) is type(first) for each in values):
        return first
    if all(isinstance(each, tuple) and len(each) == len(first) for each in values):
        return tuple(_taken(fit, each, where) for each in zip(*values, strict=True))
    if all(type(each) is int for each in values):
        return fit(values, where)
    raise UnwritableError(f"an argument of {where} that differs between workloads")
