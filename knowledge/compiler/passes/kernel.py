"""What fusion makes: kernels, each a loop nest with what it reduces and stores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from knowledge.compiler.ir.expressions import Node
from knowledge.compiler.ir.index import Axis, Index
from knowledge.compiler.ir.nodes import Value
from knowledge.compiler.problem import Tensor


@dataclass(frozen=True)
class Store:
    """An element of a tensor in memory: the kernel's axes place it, `body` is what it holds."""

    tensor: Tensor
    indices: tuple[Index, ...]
    body: Node


@dataclass(frozen=True)
class Kernel:
    """One loop nest: `totals` over the axes, each reduced over `reduced` or one scan or sort, then the stores.

    With `stepped`, all of that at every step of that axis, after the step before it.

    In the stores' bodies a total is the element `total` of its name. Reads are of values that lie in `memory`.
    """

    axes: tuple[Axis, ...]
    reduced: tuple[Axis, ...]
    totals: tuple[tuple[str, Value], ...]
    stores: tuple[Store, ...]
    memory: Mapping[int, Tensor]
    stepped: Axis | None = None

    @property
    def bodies(self) -> tuple[Node, ...]:
        """Every element that it computes."""
        return (*(value.body for _, value in self.totals if value.body), *(store.body for store in self.stores))

    @property
    def scans(self) -> bool:
        """Whether its total is a scan or a sort."""
        return any(value.kind in ("scan", "sort") for _, value in self.totals)
