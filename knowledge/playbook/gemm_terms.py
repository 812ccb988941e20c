"""What a traced GEMM-family forward is made of: operands, the product, and what is done to its result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from knowledge.playbook.gemm_views import Dim, UncoveredError, View, expand, pair

RESULT = "result"


@dataclass(frozen=True)
class Operand:
    """An argument's elements before the product.

    `factors` are C++ expressions it is multiplied by. Where `diagonal`, `view` is the vector on the diagonal of an
    otherwise zero square matrix.
    """

    view: View
    factors: tuple[str, ...] = ()
    diagonal: bool = False


@dataclass(frozen=True)
class Step:
    """One operation on a result element: C++ over `x`, and over `d`, the operand's element, where there is one.

    `at` is the result's shape when the step happened; `operand` is broadcast to it.
    """

    code: str
    at: View
    operand: View | None = None


@dataclass(frozen=True)
class Triangle:
    """The half that is kept: column - row >= offset ("upper") or <= offset ("lower"); the rest is zero."""

    half: Literal["upper", "lower"]
    offset: int


Role = Literal["batch", "m", "n", "k"]


@dataclass(frozen=True)
class CoreMode:
    """One loop of the product: its extent, the operands' strides, and the stride in the virtual result (0 for k)."""

    role: Role
    extent: int
    a: int
    b: int
    result: int


@dataclass(frozen=True)
class Result:
    """The product so far. `view` shows the virtual row-major (batch, M, N) result as the trace sees it now.

    `kind` "contract" sums over the k modes; "scale" multiplies a matrix (b) elementwise by a stretched vector (a).
    """

    kind: Literal["contract", "scale"]
    a: str
    b: str
    modes: tuple[CoreMode, ...]
    plain: View
    view: View
    steps: tuple[Step, ...] = ()
    triangle: Triangle | None = None

    def then(self, code: str, operand: View | None = None) -> Result:
        """One more step on every element. Raises UncoveredError after a triangle, whose zeros would change."""
        if self.triangle:
            raise UncoveredError("an operation after triu or tril of the product is not covered.")
        stretched = operand.broadcast(self.view.shape) if operand else None
        return replace(self, steps=(*self.steps, Step(code, self.view, stretched)))

    def scaled(self, factors: Sequence[str]) -> Result:
        """The result times each of the factors."""
        return self.then(f"x * {' * '.join(factors)}") if factors else self

    def cut(self, triangle: Triangle) -> Result:
        """Only a triangle of the result is kept. Raises UncoveredError where rows and columns were moved before."""
        if self.kind == "scale" or self.view != self.plain or self.triangle or self.view.rank < 2:
            raise UncoveredError("triu and tril are covered on the untransposed product of two matrices only.")
        # Rows and columns are those of the last two dimensions; what lies before them is batch.
        matrix = self.plain.shape[-2] * self.plain.shape[-1]
        modes = tuple(replace(mode, role="batch") if mode.result >= matrix else mode for mode in self.modes)
        return replace(self, triangle=triangle, modes=modes)


@dataclass(frozen=True)
class Labels:
    """An einsum of two operands: one letter a dimension, for both operands and for the result."""

    a: str
    b: str
    out: str

    @property
    def every(self) -> list[str]:
        """Result labels in the virtual result's order (batch, A's own, B's own), then the summed ones."""
        return sorted(set(self.a + self.b), key=self._rank)

    def _rank(self, label: str) -> tuple[int, int]:
        roles: tuple[Role, ...] = ("batch", "m", "n", "k")
        own = self.a if label in self.a else self.b
        return roles.index(self.role(label)), own.index(label)

    def role(self, label: str) -> Role:
        """What the label's loop does."""
        if label in self.a and label in self.b:
            return "batch" if label in self.out else "k"
        return "m" if label in self.a else "n"

    def check(self) -> None:
        """Raise UncoveredError for what is not a product: a label repeated, or summed in one operand only."""
        if any(len(set(labels)) < len(labels) for labels in (self.a, self.b, self.out)):
            raise UncoveredError("einsum with a label repeated in one operand is not covered.")
        if (set(self.a) ^ set(self.b)) != set(self.out) - (set(self.a) & set(self.b)):
            raise UncoveredError("einsum that sums a label of one operand alone is not covered.")


def contract(a: Operand, b: Operand, labels: Labels) -> Result:
    """The sum over the labels that the result lacks, as einsum writes it. Extents of 1 broadcast.

    Raises UncoveredError for what is not a product of two dense operands.
    """
    if a.diagonal or b.diagonal:
        raise UncoveredError("a diagonal matrix is covered as a factor of mm and matmul, beside a dense matrix.")
    labels.check()
    extents: dict[str, int] = {}
    for own, operand in ((labels.a, a), (labels.b, b)):
        for label, extent in zip(own, operand.view.shape, strict=True):
            extents[label] = max(extent, extents.get(label, 1))
    kept = [label for label in labels.every if label in labels.out]
    virtual = View.contiguous(RESULT, [extents[label] for label in kept])
    modes: list[CoreMode] = []
    for label in labels.every:
        left, right = (
            expand(operand.view.dims[own.index(label)], extents[label]) if label in own else _repeat(extents[label])
            for own, operand in ((labels.a, a), (labels.b, b))
        )
        target = virtual.dims[kept.index(label)] if label in kept else _repeat(extents[label])
        modes += core_modes(labels.role(label), left, right, target)
    view = virtual.permute([kept.index(label) for label in labels.out])
    result = Result("contract", a.view.source, b.view.source, tuple(modes), virtual, view)
    return result.scaled((*a.factors, *b.factors))


def stretch(vector: Operand, matrix: Operand, axis: int) -> Result:
    """The matrix with dimension `axis` multiplied by the vector: what a diagonal factor comes to."""
    if matrix.diagonal:
        raise UncoveredError("the product of two diagonal matrices is not covered.")
    (along,) = vector.view.dims
    virtual = View.contiguous(RESULT, matrix.view.shape)
    modes: list[CoreMode] = []
    for i, dim in enumerate(matrix.view.dims):
        left = along if i == axis % matrix.view.rank else _repeat(matrix.view.shape[i])
        modes += core_modes("m", left, dim, virtual.dims[i])
    result = Result("scale", vector.view.source, matrix.view.source, tuple(modes), virtual, virtual)
    return result.scaled((*vector.factors, *matrix.factors))


def _repeat(extent: int) -> Dim:
    return ((extent, 0),) if extent > 1 else ()


def core_modes(role: Role, left: Dim, right: Dim, target: Dim) -> list[CoreMode]:
    """The loops of one dimension, cut where either operand is cut. `target` has one mode at most."""
    modes: list[CoreMode] = []
    stride = target[0][1] if target else 0
    for extent, ours, theirs in reversed(pair(left, right)):
        modes.insert(0, CoreMode(role, extent, ours, theirs, stride))
        stride *= extent
    return modes
