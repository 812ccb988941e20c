"""Splits expressions with reductions into sweeps over a row.

All reductions run over the same dimensions of the same shape; those dimensions together are the columns, the others the
rows. A sweep goes over the columns of one row once and computes every reduction whose operand is known by then; values
that are the same for a whole row are computed between sweeps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod

from knowledge.compiler.ir.expressions import Node, UnwritableError, postorder
from knowledge.compiler.ir.strides import Space, collapse, packed_strides
from knowledge.compiler.lower.lowering import Lowered
from knowledge.compiler.problem import Tensor


@dataclass(frozen=True)
class Target:
    """An output: its tensor over the common shape (of extent 1 along columns for one number a row), its value."""

    tensor: Tensor
    node: Node


class RowProgram:
    """The sweeps of a kernel with reductions. Raises `UnwritableError` where there is no such common row.

    `online`: sums of exponentials below a maximum belong to the maximum's sweep, which corrects them as it grows.
    """

    def __init__(self, lowered: Lowered, *, online: bool = False) -> None:
        roots = tuple(node for _, node in lowered.outputs)
        self.reductions = tuple(node for node in postorder(roots) if node.kind == "reduce")
        if not self.reductions:
            raise UnwritableError("a module without a reduction along rows")
        self.shape = self.reductions[0].shape
        self.dims = tuple(int(dim) for dim in self.reductions[0].payload)
        self.targets = tuple(Target(tensor, node) for tensor, node in lowered.outputs)
        maxima = ((each, maximum_below(each)) for each in self.reductions if online)
        self.maximum_of = {id(total): maximum for total, maximum in maxima if maximum is not None}
        self._levels: dict[int, int] = {}
        self._flat: dict[int, bool] = {}
        for node in self.nodes:
            self._classify(node)

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """Every node, operands first."""
        return tuple(postorder(tuple(target.node for target in self.targets)))

    def level(self, node: Node) -> int:
        """How many sweeps must be over before the value is known."""
        return self._levels[id(node)]

    def flat(self, node: Node) -> bool:
        """Whether the value is the same for a whole row."""
        return self._flat[id(node)]

    @cached_property
    def sweeps(self) -> int:
        """How many times the kernel goes over a row."""
        reductions = [self.level(each) + 1 for each in self.reductions]
        return max(reductions + [self.level(each.node) + 1 for each in self.targets if self.is_full(each)])

    def is_full(self, target: Target) -> bool:
        """Whether an output has one element a column."""
        return prod(target.tensor.shape) == prod(self.shape)

    def reductions_of(self, sweep: int) -> tuple[Node, ...]:
        """The reductions that sweep number `sweep` computes."""
        return tuple(each for each in self.reductions if self.level(each) == sweep)

    def stores_of(self, sweep: int) -> tuple[Target, ...]:
        """The outputs with one element a column that sweep number `sweep` writes."""
        return tuple(each for each in self.targets if self.is_full(each) and self.level(each.node) == sweep)

    def row_stores(self, level: int) -> tuple[Target, ...]:
        """The outputs with one element a row that are known after `level` sweeps."""
        return tuple(each for each in self.targets if not self.is_full(each) and self.level(each.node) == level)

    def wanted(self, sweep: int) -> tuple[Node, ...]:
        """The values that sweep number `sweep` computes for each column."""
        operands = [each.args[0] for each in self.reductions_of(sweep) if id(each) not in self.maximum_of]
        return (*operands, *(each.node for each in self.stores_of(sweep)))

    def row_nodes(self, level: int) -> tuple[Node, ...]:
        """Row values known after `level` sweeps and not before: loads and arithmetic, operands first."""
        kinds = ("compute", "load")
        return tuple(
            node for node in self.nodes if node.kind in kinds and self.flat(node) and self.level(node) == level
        )

    @cached_property
    def kept(self) -> tuple[Node, ...]:
        """Costly column values that a later sweep needs again: worth a buffer of one row."""
        result: dict[int, Node] = {}
        before: set[int] = set()
        for sweep in range(self.sweeps):
            wanted = self.wanted(sweep)
            again = frozenset(id(node) for node in self.cone(wanted) if id(node) in before and self._costly(node))
            result |= {id(node): node for node in self.cone(wanted, again) if id(node) in again}
            before |= {id(node) for node in self.cone(wanted)}
        return tuple(result.values())

    @cached_property
    def steps_apart(self) -> bool:
        """Whether a row's columns lie apart in memory, so that they are read or written one by one."""
        space, full = self.columns, [self.is_full(each) for each in self.targets]
        own = [*full, *(any(load is each for each in self.by_rows) for load in self.operands)]
        # Not strict: where a place is asked for (argmax), the space ends with the order of places, which is no memory.
        steps = (mine[0] for mine, counts in zip(space.strides, own, strict=False) if counts)
        return len(space.extents) > 1 or not {*steps} <= {0, 1}

    def cone(self, nodes: Iterable[Node], stop: frozenset[int] = frozenset()) -> Iterator[Node]:
        """Column values under `nodes`, operands first; row values and nodes in `stop` are entered by none."""
        seen: set[int] = set()
        stack = [(node, False) for node in reversed(list(nodes))]
        while stack:
            node, expanded = stack.pop()
            if id(node) in seen or node.uniform or self.flat(node):
                continue
            if expanded:
                seen.add(id(node))
                yield node
                continue
            stack.append((node, True))
            if id(node) not in stop:
                stack.extend((arg, False) for arg in reversed(node.args))

    @cached_property
    def operands(self) -> tuple[Node, ...]:
        """All loads."""
        return tuple(node for node in self.nodes if node.kind == "load")

    @cached_property
    def by_rows(self) -> tuple[Node, ...]:
        """The loads that have columns of their own for each row."""
        rows = [dim for dim, extent in enumerate(self.shape) if dim not in self.dims and extent > 1]
        return tuple(node for node in self.operands if not self.flat(node) and any(node.strides[dim] for dim in rows))

    @cached_property
    def columns(self) -> Space:
        """The column dimensions merged, for the outputs and then the loads."""
        return self._space(self.dims, ordered=any(each.op in ("argmax", "argmin") for each in self.reductions))

    @cached_property
    def rows(self) -> Space:
        """The row dimensions merged, for the outputs and then the loads."""
        return self._space(tuple(dim for dim in range(len(self.shape)) if dim not in self.dims), ordered=False)

    def _space(self, dims: tuple[int, ...], *, ordered: bool) -> Space:
        strides = [target.tensor.strides for target in self.targets] + [load.strides for load in self.operands]
        picked = [tuple(each[dim] for dim in dims) for each in strides]
        shape = tuple(self.shape[dim] for dim in dims)
        if ordered:
            return collapse(shape, [*picked, packed_strides(shape)], leading=len(picked))
        leading = next((k for k, each in enumerate(picked) if any(each)), 0)
        return collapse(shape, picked, leading=leading)

    def _classify(self, node: Node) -> None:
        levels = [self.level(arg) for arg in node.args]
        if node.kind == "gathered":
            self._levels[id(node)], self._flat[id(node)] = levels[0] + 1, True
            return
        still = (
            all(node.strides[dim] == 0 or self.shape[dim] == 1 for dim in self.dims) if node.kind == "load" else True
        )
        early = self.maximum_of.get(id(node))
        self._levels[id(node)] = self.level(early) if early else max(levels, default=0)
        self._flat[id(node)] = still and all(self.flat(arg) for arg in node.args) and node.kind != "reduce"

    def _costly(self, node: Node) -> bool:
        cheap = ("add", "sub", "mul", "neg", "abs", "maximum", "minimum", "select", "cast")
        return any(each.kind == "compute" and each.op not in cheap for each in self.cone((node,)))


def maximum_below(total: Node) -> Node | None:
    """The reduction m of x where `total` is the sum of e^(x - m), else None."""
    match total.args[0].op, total.args[0].args:
        case "exp", (Node(op="sub", args=(x, Node(kind="gathered", args=(maximum,)))),) if total.op == "sum":
            return maximum if maximum.op == "amax" and maximum.args == (x,) else None
    return None
