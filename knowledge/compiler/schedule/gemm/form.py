"""The product in its canonical shape: one loop each for M, N and K, any number of batch loops, static strides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Literal

BYTES = {"float32": 4, "float64": 8, "float16": 2, "bfloat16": 2}
NARROW = frozenset({"float16", "bfloat16"})
"""Types that are multiplied as they are and summed in float32."""
# CuTe computes offsets of static layouts in int.
MAX_SPAN = 2**31

A, B, C = 0, 1, 2
"""Places of the operands among an axis' strides; step operands follow from 3 on."""


SCALAR_PREFIX = "s_"
"""Stands before a scalar argument's name inside the kernel, where it has the element type."""


class UncoveredError(Exception):
    """The GEMM family cannot write this problem; `str()` is a sentence for the user."""


@dataclass(frozen=True)
class Triangle:
    """The half that is kept: column - row >= offset ("upper") or <= offset ("lower"); the rest is zero."""

    half: Literal["upper", "lower"]
    offset: int

    @property
    def mirrored(self) -> Triangle:
        """The same half of the transposed matrix."""
        return Triangle("lower" if self.half == "upper" else "upper", -self.offset)


@dataclass(frozen=True)
class Axis:
    """One loop: how often it runs, and every operand's stride in elements (0 where the operand does not move)."""

    extent: int = 1
    strides: tuple[int, ...] = ()


@dataclass(frozen=True)
class Second:
    """A second product of A, with an operand that lies as B does; a form's steps read it as `u`, after its own `codes`.

    `operand` is a C++ name; `codes` are statements over `u` and the form's operands.
    """

    operand: str
    codes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Form:
    """C[m, n, l] = steps(sum over k of A[m, k, l] * B[n, k, l]).

    `operands` are C++ names of A, B, C and the steps' operands, in the order of every axis' strides. `codes` are the
    steps, C++ statements over `x`, `d0`, `d1`, ... and scalar arguments.
    """

    dtype: str
    operands: tuple[str, ...]
    m: Axis
    n: Axis
    k: Axis
    batch: tuple[Axis, ...]
    codes: tuple[str, ...]
    triangle: Triangle | None
    second: Second | None = None

    @property
    def axes(self) -> tuple[Axis, ...]:
        """All loops: M, N, K, then the batches'."""
        return (self.m, self.n, self.k, *self.batch)

    @property
    def batches(self) -> int:
        """Number of independent products."""
        return prod(axis.extent for axis in self.batch)

    @property
    def flops(self) -> int:
        """A multiply-add counts as two; half of it where a triangle is kept."""
        products = self.batches * self.m.extent * self.n.extent * self.k.extent
        return 2 * products * (2 if self.second else 1) // (2 if self.triangle else 1)

    @property
    def extras(self) -> tuple[str, ...]:
        """C++ names of the steps' operands."""
        return self.operands[3:]

    @property
    def rows_only(self) -> bool:
        """Whether it is a matrix times a vector with the matrix read along K: dot products of rows."""
        return self.n.extent == 1


def canonical(
    dtype: str, operands: tuple[str, ...], found: Mapping[str, list[Axis]], codes: tuple[str, ...],
    triangle: Triangle | None, places: int,
) -> Form:  # fmt: skip
    """Loops by their roles ("batch", "m", "n", "k") as a form. Raises UncoveredError where it would have two of K."""
    empty = Axis(1, (0,) * places)
    form = Form(dtype, operands, empty, empty, empty, (), codes, triangle)
    return _checked(_oriented(_placed(form, {role: _merge(axes) for role, axes in found.items()})))


def narrowed(form: Form, second: Second) -> Form:
    """A pair without the strides of the second product's operand, which are B's."""
    m, n, k, *batch = (Axis(axis.extent, axis.strides[:-1]) for axis in form.axes)
    return replace(form, m=m, n=n, k=k, batch=tuple(batch), second=second)


def _merge(axes: list[Axis]) -> list[Axis]:
    """Loops that are one loop for every operand become one; ordered by C's stride, else A's, the slowest first."""
    merged: list[Axis] = []
    for axis in sorted(axes, key=lambda axis: (axis.strides[C], axis.strides[A]), reverse=True):
        if merged and merged[-1].strides == tuple(stride * axis.extent for stride in axis.strides):
            axis = Axis(axis.extent * merged.pop().extent, axis.strides)
        merged.append(axis)
    return merged


def _placed(form: Form, axes: dict[str, list[Axis]]) -> Form:
    """Choose the one loop for M, N and K; what is left over becomes batch, where the other operand stands still."""
    if len(axes["k"]) > 1:
        raise UncoveredError("a product that sums over several dimensions that do not merge is not covered.")
    # A batch loop in which one operand stands still is a longer M or N.
    movable = [] if form.triangle else axes["batch"]
    taller = [axis for axis in movable if axis.strides[B] == 0]
    wider = [axis for axis in movable if axis.strides[A] == 0 and axis.strides[B] != 0]
    rest = [axis for axis in axes["batch"] if axis not in taller + wider]
    rows, columns = _merge(axes["m"] + taller), _merge(axes["n"] + wider)
    m, n = _longest(rows, form.m), _longest(columns, form.n)
    spare = [axis for axis in rows + columns if axis not in (m, n)]
    if form.triangle and spare:
        raise UncoveredError("a triangle of a product whose rows or columns do not merge is not covered.")
    k = axes["k"][0] if axes["k"] else form.k
    return replace(form, m=m, n=n, k=k, batch=tuple(_merge(spare + rest)))


def _longest(axes: list[Axis], none: Axis) -> Axis:
    return max(axes, key=lambda axis: axis.extent, default=none)


def _oriented(form: Form) -> Form:
    """Swap the operands where that puts unit strides along N, or makes a vector the second operand."""
    if form.n.extent == 1:
        # A matrix that lies transposed in memory is read along M: M becomes the vectors' dimension.
        return swapped(form) if form.m.strides[A] == 1 and form.k.strides[A] != 1 else form
    if form.m.extent == 1:
        return form if form.n.strides[B] == 1 and form.k.strides[B] != 1 else swapped(form)
    return swapped(form) if form.n.strides[C] != 1 and form.m.strides[C] == 1 else form


def swapped(form: Form) -> Form:
    """The transposed product: C.T = B.T @ A.T."""
    swapped = [Axis(axis.extent, (axis.strides[B], axis.strides[A], *axis.strides[C:])) for axis in form.axes]
    m, n, k, *batch = swapped
    triangle = form.triangle and form.triangle.mirrored
    a, b, *others = form.operands
    return replace(form, operands=(b, a, *others), m=n, n=m, k=k, batch=tuple(batch), triangle=triangle)


def _checked(form: Form) -> Form:
    for place, name in enumerate(form.operands):
        span = 1 + sum((axis.extent - 1) * axis.strides[place] for axis in form.axes)
        if span >= MAX_SPAN:
            raise UncoveredError(f"{name} spans {span} elements; the GEMM recipe covers fewer than 2**31.")
    return form
