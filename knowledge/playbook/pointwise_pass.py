"""A pass: the outputs of one shape, the loads they need, and the loop nest that walks them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

from knowledge.playbook.expressions import Node, UnwritableError, postorder
from knowledge.playbook.lowering import Lowered
from knowledge.playbook.problem import Tensor
from knowledge.playbook.space import Space, collapse


@dataclass(frozen=True)
class Pass:
    """Outputs of one shape, computed together."""

    outputs: tuple[tuple[Tensor, Node], ...]

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """Every node, operands first."""
        return tuple(postorder(tuple(node for _, node in self.outputs)))

    @cached_property
    def loads(self) -> tuple[Node, ...]:
        """The distinct strided loads."""
        return tuple(node for node in self.nodes if node.kind == "load")

    @cached_property
    def scalars(self) -> tuple[Node, ...]:
        """The numbers passed by value."""
        return tuple(node for node in self.nodes if node.kind == "scalar")

    @cached_property
    def space(self) -> Space:
        """The loop nest; operands are the outputs, then the loads."""
        shape = self.outputs[0][0].shape
        return collapse(shape, [tensor.strides for tensor, _ in self.outputs] + [load.strides for load in self.loads])

    @property
    def numel(self) -> int:
        """Elements of each output."""
        return prod(self.outputs[0][0].shape)


def passes_of(lowered: Lowered) -> tuple[Pass, ...]:
    """One pass a shape. Raises `UnwritableError` where a reduction takes part, or there is nothing to compute."""
    by_shape: dict[tuple[int, ...], list[tuple[Tensor, Node]]] = {}
    for tensor, node in lowered.outputs:
        by_shape.setdefault(tensor.shape, []).append((tensor, node))
    passes = tuple(Pass(tuple(outputs)) for outputs in by_shape.values())
    for each in passes:
        for node in each.nodes:
            if node.kind == "reduce":
                raise UnwritableError(node.origin)
    return passes
