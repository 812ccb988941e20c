"""What attention is, as it was found and as kernels are written from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from knowledge.compiler.index import Axis, Index
from knowledge.compiler.nodes import Values
from knowledge.compiler.seen import Band
from knowledge.playbook.expressions import Node
from knowledge.playbook.problem import Tensor

SCORE = "s"
"""The total among a score's elements that is the product of q and k."""


@dataclass(frozen=True)
class Operand:
    """q, k, v or the result: where a head begins, then the steps of its rows and columns, in elements."""

    tensor: Tensor
    start: Index
    row: int
    column: int


@dataclass(frozen=True)
class Attention:
    """One attention over the axes `heads`. `score` is an element of the total `s`, of `row` and `key`; None: s itself.

    A row sees no key outside `band`. `safe`: a row that sees no key is 0, else NaN.
    """

    graph: Values
    dtype: str
    heads: tuple[Axis, ...]
    row: Axis
    key: Axis
    inner: int
    outer: int
    q: Operand
    k: Operand
    v: Operand
    output: Operand
    scale: float
    score: Node | None
    band: Band
    safe: bool
    memory: Mapping[int, Tensor]
