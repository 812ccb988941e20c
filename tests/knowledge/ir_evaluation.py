"""What the compiler's IR means, with torch: indices are tensors of whole numbers, reads are advanced indexing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from evaluation import computed, reduced

from knowledge.compiler.ir.dtypes import NARROW, computed_in
from knowledge.compiler.ir.expressions import Node
from knowledge.compiler.ir.index import Axis, Data, Index, Quotient, axes
from knowledge.compiler.ir.nodes import Element, Region, Value, elements, neutral, values
from knowledge.compiler.lower.lowering import Lowered
from knowledge.compiler.passes.kernel import Kernel
from knowledge.compiler.problem import Problem

CUMULATED = {
    "sum": lambda x, dim: torch.cumsum(x, dim, dtype=x.dtype),
    "prod": lambda x, dim: torch.cumprod(x, dim, dtype=x.dtype),
    "amax": lambda x, dim: torch.cummax(x, dim).values, "amin": lambda x, dim: torch.cummin(x, dim).values,
}  # fmt: skip


def meaning(problem: Problem, lowered: Lowered, tensors: Mapping[str, Any]) -> list[torch.Tensor]:
    """The module's outputs, computed value by value."""
    known: dict[int, torch.Tensor] = {}
    roots = tuple(node for _, node in lowered.outputs)
    for value in values(*(node for node in roots if isinstance(node, Value))):
        known[id(value)] = _defined(value, known, tensors)
    made = []
    for output, node in zip(problem.outputs, roots, strict=True):
        got = known[id(node)] if isinstance(node, Value) else _number(node, tensors)
        made.append(got.expand(output.shape).to(getattr(torch, output.dtype)))
    return made


def of_kernels(problem: Problem, kernels: Iterable[Kernel], tensors: Mapping[str, Any]) -> list[torch.Tensor]:
    """The module's outputs, computed kernel by kernel by way of what they store. None of them goes step by step."""
    held = {name: _read_as(each) if isinstance(each, torch.Tensor) else each for name, each in tensors.items()}
    for kernel in kernels:
        known = {number: held[each.name] for number, each in kernel.memory.items() if each.name in held}
        totals = {name: _total(kernel, value, known, tensors) for name, value in kernel.totals}
        for store in kernel.stores:
            body = Body(kernel.axes, known, tensors, totals=totals)
            made = body.element(store.body).expand([axis.extent for axis in kernel.axes])
            into = held.setdefault(store.tensor.name, torch.zeros(store.tensor.shape, dtype=made.dtype))
            into[tuple(body.index(each) for each in store.indices)] = made
    return [held[each.name].to(getattr(torch, each.dtype)) for each in problem.outputs]


def _total(kernel: Kernel, value: Value, known: Mapping[int, torch.Tensor], tensors: Mapping[str, Any]) -> torch.Tensor:
    if value.kind != "reduce":
        return _defined(value, known, tensors)
    assert value.body is not None
    body = Body((*kernel.axes, *kernel.reduced), known, tensors).element(value.body)
    return _reduced(value, body.expand([axis.extent for axis in (*kernel.axes, *kernel.reduced)]), len(kernel.axes))


def _read_as(given: torch.Tensor) -> torch.Tensor:
    """What a read of an argument is computed with."""
    return given.float() if str(given.dtype).removeprefix("torch.") in NARROW else given


def _reduced(value: Value, body: torch.Tensor, rank: int) -> torch.Tensor:
    """The body over all dimensions but the first `rank`."""
    if not body.numel():
        dtype = getattr(torch, value.dtype)
        return torch.full(body.shape[:rank], neutral(value.op, value.dtype), dtype=dtype)
    over = range(rank, body.dim())
    return reduced(Node("reduce", value.op, value.dtype, tuple(body.shape), (), tuple(over)), body)


def _defined(
    value: Value, known: Mapping[int, torch.Tensor], tensors: Mapping[str, Any], fixed: Mapping[Axis, int] | None = None
) -> torch.Tensor:
    if value.kind == "source":
        return _read_as(tensors[value.op])
    if value.region is not None:
        return _looped(value, value.region, known, tensors)
    assert value.body is not None
    if value.kind == "sort":
        return _sorted(value, known, tensors, fixed)
    if value.kind == "steps":
        return _stepped(value, known, tensors)
    axes = (*value.axes, *value.reduced)
    body = Body(axes, known, tensors, fixed).element(value.body).expand([axis.extent for axis in axes])
    if value.kind == "map":
        return body
    if value.kind == "scan":
        return CUMULATED[value.op](body, value.dim)
    return _reduced(value, body, len(value.axes))


def _looped(
    value: Value, region: Region, known: Mapping[int, torch.Tensor], tensors: Mapping[str, Any]
) -> torch.Tensor:
    """One step after the other."""
    held = {id(each.before): Body(axes("i", each.before.shape), known, tensors).element(each.first)
            .expand(each.before.shape) for each in region.carried}  # fmt: skip
    made = []
    for step in range(region.axis.extent):
        now = dict(known) | held
        for each in region.inner:
            now[id(each)] = _defined(each, now, tensors, {region.axis: step})
        made.append(now[id(region.made[int(value.op)])])
        held = {id(each.before): now[id(each.after)] for each in region.carried}
    return torch.stack(made)


def _sorted(
    value: Value, known: Mapping[int, torch.Tensor], tensors: Mapping[str, Any], fixed: Mapping[Axis, int] | None
) -> torch.Tensor:
    """Places in the order, along the last dimension first."""
    assert value.body is not None
    axes = (*value.axes[: value.dim], *value.axes[value.dim + 1 :], *value.reduced)
    body = Body(axes, known, tensors, fixed).element(value.body).expand([axis.extent for axis in axes])
    order = body.sort(dim=-1, descending=value.op == "descending", stable=True).indices
    return order[..., : value.shape[value.dim]].movedim(-1, value.dim)


def _stepped(value: Value, known: Mapping[int, torch.Tensor], tensors: Mapping[str, Any]) -> torch.Tensor:
    """One step after the other."""
    assert value.body is not None
    state, step, *rest = value.axes
    shape = [axis.extent for axis in (state, *rest)]
    made = [torch.zeros(shape, dtype=getattr(torch, value.dtype))]
    for place in range(step.extent):
        totals = {}
        for number, each in enumerate(value.sums):
            body = Body((*rest, *value.reduced), known, tensors, {step: place}, before=made[-1])
            terms = body.element(each).expand([axis.extent for axis in (*rest, *value.reduced)])
            totals[f"s{number}"] = terms.sum(tuple(range(len(rest), terms.dim())))
        body = Body((state, *rest), known, tensors, {step: place}, made[-1], totals)
        made.append(body.element(value.body).expand(shape))
    return torch.stack(made[1:], 1)


def _number(node: Node, tensors: Mapping[str, Any]) -> torch.Tensor:
    return Body((), {}, tensors).element(node)


class Body:
    """An element at every place of some axes at once."""

    def __init__(
        self, axes: tuple[Axis, ...], known: Mapping[int, torch.Tensor], tensors: Mapping[str, Any],
        fixed: Mapping[Axis, int] | None = None, before: torch.Tensor | None = None,
        totals: Mapping[str, torch.Tensor] | None = None,
    ) -> None:  # fmt: skip
        self.known = known
        self.tensors = tensors
        rank = len(axes)
        self.places = {
            axis: torch.arange(axis.extent).reshape([-1 if k == dim else 1 for k in range(rank)])
            for dim, axis in enumerate(axes)
        } | {axis: torch.tensor(place) for axis, place in (fixed or {}).items()}
        self.before = before
        self.totals = totals or {}
        self.made: dict[int, torch.Tensor] = {}

    def element(self, root: Node) -> torch.Tensor:
        """Its value, broadcastable to the axes."""
        for node in elements(root):
            self.made[id(node)] = self._made(node)
        return self.made[id(root)]

    def index(self, index: Index) -> torch.Tensor:
        """A tensor of whole numbers."""
        total = torch.tensor(index.offset)
        for atom, times in index.terms:
            if isinstance(atom, Axis):
                part = self.places[atom]
            elif isinstance(atom, Data):
                part = self.made[id(atom.value)]
            else:
                part = self.index(atom.of)
                part = part.div(atom.by, rounding_mode="floor") if isinstance(atom, Quotient) else part % atom.by
            total = total + part * times
        return total

    def _made(self, node: Node) -> torch.Tensor:
        if isinstance(node, Element):
            places = [self.index(each) for each in node.indices]
            if node.kind == "position":
                return places[0]
            if node.kind == "within":
                return (places[0] >= 0) & (places[0] < node.extent)
            if node.kind == "total":
                return self.totals[node.op]
            if node.kind == "before":
                assert self.before is not None
                return self.before[tuple(places)]
            return self._read(node, places)
        if node.kind in ("const", "scalar"):
            given = node.payload[0] if node.kind == "const" else self.tensors[node.op]
            exact = torch.tensor(given, dtype=torch.float64) if isinstance(given, float) else torch.tensor(given)
            return exact.to(getattr(torch, computed_in(node.dtype)))
        return computed(node, [self.made[id(arg)] for arg in node.args])

    def _read(self, node: Element, places: list[torch.Tensor]) -> torch.Tensor:
        assert node.value is not None
        tensor = self.known[id(node.value)]
        if not tensor.numel():
            return torch.zeros((), dtype=tensor.dtype)
        inside = torch.tensor(True)
        for place, extent in zip(places, tensor.shape, strict=True):
            inside = inside & (place >= 0) & (place < extent)
        assert node.partial or bool(inside.all()), "a read beyond its value that is not said to be partial"
        held = [place.clamp(0, extent - 1) for place, extent in zip(places, tensor.shape, strict=True)]
        got = tensor[tuple(held)] if held else tensor
        return torch.where(inside, got, torch.zeros((), dtype=tensor.dtype))
