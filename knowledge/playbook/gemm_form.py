"""The product in its canonical shape: one loop each for M, N and K, any number of batch loops, static strides."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod
from typing import Literal

from knowledge.playbook.gemm_terms import CoreMode, Result, Triangle
from knowledge.playbook.gemm_trace import read
from knowledge.playbook.gemm_views import UncoveredError, View, pair
from knowledge.playbook.identifiers import identifiers
from knowledge.playbook.problem import Problem, Ref, Scalar

BYTES = {"float32": 4, "float64": 8, "float16": 2, "bfloat16": 2}
NARROW = frozenset({"float16", "bfloat16"})
"""Types that are multiplied as they are and summed in float32."""
# CuTe computes offsets of static layouts in int.
MAX_SPAN = 2**31

A, B, C = 0, 1, 2
"""Places of the operands among an axis' strides; step operands follow from 3 on."""


@dataclass(frozen=True)
class Axis:
    """One loop: how often it runs, and every operand's stride in elements (0 where the operand does not move)."""

    extent: int = 1
    strides: tuple[int, ...] = ()


@dataclass(frozen=True)
class Second:
    """A second product of A, with an operand that lies as B does; a form's steps read it as `u`, after its own `codes`.

    `operand` is a C++ name; `codes` are over `u` and the form's operands.
    """

    operand: str
    codes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Form:
    """C[m, n, l] = steps(sum over k of A[m, k, l] * B[n, k, l]), or for "scale" steps(A[m, n, l] * B[m, n, l]).

    `operands` are C++ names of A, B, C and the steps' operands, in the order of every axis' strides. `codes` are the
    steps, in C++ over `x`, `d0`, `d1`, ... and scalar arguments.
    """

    kind: Literal["contract", "scale"]
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
    def batches(self) -> int:
        """Number of independent products."""
        return prod(axis.extent for axis in self.batch)

    @property
    def flops(self) -> int:
        """A multiply-add counts as two; half of it where a triangle is kept."""
        total = self.batches * self.m.extent * self.n.extent
        if self.kind == "scale":
            return total
        return 2 * total * self.k.extent * (2 if self.second else 1) // (2 if self.triangle else 1)

    @property
    def extras(self) -> tuple[str, ...]:
        """C++ names of the steps' operands."""
        return self.operands[3:]

    @property
    def rows_only(self) -> bool:
        """Whether it is a matrix times a vector with the matrix read along K: dot products of rows."""
        return self.kind == "contract" and self.n.extent == 1


def form_of(problem: Problem) -> Form:
    """Bring the traced forward into canonical shape. Raises UncoveredError, saying what is in the way."""
    if any(argument.numel == 0 for argument in problem.arguments if not isinstance(argument, Scalar)):
        raise UncoveredError("the GEMM recipe does not cover empty tensors.")
    result = read(problem)
    dtype = _one_dtype(problem)
    output = problem.outputs[0]
    if output.shape != result.view.shape:
        raise UncoveredError(f"the output's shape {output.shape} is not the product's {result.view.shape}.")
    views = [(result.view, View.of(output)), *((step.at, step.operand) for step in result.steps if step.operand)]
    pieces = [piece for mode in result.modes for piece in _cut(mode, views)]
    axes = {role: _merge([axis for kind, axis in pieces if kind == role]) for role in ("batch", "m", "n", "k")}
    names = identifiers(argument.name for argument in problem.arguments)
    operands = tuple(names[source] for source in (result.a, result.b, *(real.source for _, real in views)))
    empty = Axis(1, (0,) * len(operands))
    form = Form(result.kind, dtype, operands, empty, empty, empty, (), _codes(result), result.triangle)
    return _checked(_oriented(_placed(form, axes)))


def _one_dtype(problem: Problem) -> str:
    atoms = (atom for op in problem.ops for each in op.args for atom in (each if isinstance(each, tuple) else (each,)))
    read = {atom.ref for atom in atoms if isinstance(atom, Ref)}
    given = [each for each in problem.parameters if each.name in read]  # a batch norm also counts its batches
    tensors = [each for each in (*problem.inputs, *given, *problem.outputs) if not isinstance(each, Scalar)]
    dtypes = {tensor.dtype for tensor in (*tensors, *(result for op in problem.ops for result in op.results))}
    if len(dtypes) != 1 or not dtypes <= BYTES.keys():
        raise UncoveredError(f"the GEMM recipe covers {', '.join(BYTES)}, one of them; this has {sorted(dtypes)}.")
    return dtypes.pop()


def _codes(result: Result) -> tuple[str, ...]:
    codes, index = [], 0
    for step in result.steps:
        codes.append(re.sub(r"\bd\b", f"d{index}", step.code) if step.operand else step.code)
        index += step.operand is not None
    return tuple(codes)


def _cut(mode: CoreMode, views: list[tuple[View, View]]) -> list[tuple[str, Axis]]:
    """The product's loop, cut wherever the output or a step's operand is cut, with all strides."""
    if mode.role == "k":
        return [("k", Axis(mode.extent, (mode.a, mode.b) + (0,) * len(views)))]
    first, last = mode.result, mode.result * mode.extent
    maps = [_pieces(virtual, real) for virtual, real in views]
    starts = {start for pieces in maps for _, start, _ in pieces if first < start < last} | {first}
    axes: list[tuple[str, Axis]] = []
    for start, end in pairwise((*sorted(starts), last)):
        if end % start or start % first:
            raise UncoveredError("the output cuts a dimension of the product unevenly.")
        step = start // first
        others = tuple(_stride_at(pieces, start) for pieces in maps)
        axes.insert(0, (mode.role, Axis(end // start, (mode.a * step, mode.b * step, *others))))
    return axes


def _pieces(virtual: View, real: View) -> list[tuple[int, int, int]]:
    """The virtual result cut like the real tensor: (extent, virtual stride, real stride)."""
    return [piece for ours, theirs in zip(virtual.dims, real.dims, strict=True) for piece in pair(ours, theirs)]


def _stride_at(pieces: list[tuple[int, int, int]], start: int) -> int:
    """The real stride that goes with the virtual stride `start`."""
    for extent, stride, real in pieces:
        if stride <= start < stride * extent and start % stride == 0:
            return real * (start // stride)
    raise UncoveredError("the output cuts a dimension of the product unevenly.")


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
    if form.kind == "scale":
        n, m = _pop(rows, form.n), _pop(rows, form.m)
    else:
        m, n = _longest(rows, form.m), _longest(columns, form.n)
    spare = [axis for axis in rows + columns if axis not in (m, n)]
    if form.triangle and spare:
        raise UncoveredError("a triangle of a product whose rows or columns do not merge is not covered.")
    k = axes["k"][0] if axes["k"] else form.k
    return replace(form, m=m, n=n, k=k, batch=tuple(_merge(spare + rest)))


def _pop(axes: list[Axis], none: Axis) -> Axis:
    return axes.pop() if axes else none


def _longest(axes: list[Axis], none: Axis) -> Axis:
    return max(axes, key=lambda axis: axis.extent, default=none)


def _oriented(form: Form) -> Form:
    """Swap the operands where that puts unit strides along N, or makes a vector the second operand."""
    if form.kind == "scale":
        return form
    if form.n.extent == 1:
        # A matrix that lies transposed in memory is read along M: M becomes the vectors' dimension.
        return swapped(form) if form.m.strides[A] == 1 and form.k.strides[A] != 1 else form
    if form.m.extent == 1:
        return form if form.n.strides[B] == 1 and form.k.strides[B] != 1 else swapped(form)
    return swapped(form) if form.n.strides[C] != 1 and form.m.strides[C] == 1 else form


def swapped(form: Form) -> Form:
    """The transposed product: C.T = B.T @ A.T."""
    swapped = [Axis(axis.extent, (axis.strides[B], axis.strides[A], *axis.strides[C:])) for axis in _axes(form)]
    m, n, k, *batch = swapped
    triangle = form.triangle and Triangle("lower" if form.triangle.half == "upper" else "upper", -form.triangle.offset)
    a, b, *others = form.operands
    return replace(form, operands=(b, a, *others), m=n, n=m, k=k, batch=tuple(batch), triangle=triangle)


def _axes(form: Form) -> tuple[Axis, ...]:
    return (form.m, form.n, form.k, *form.batch)


def _checked(form: Form) -> Form:
    for place, name in enumerate(form.operands):
        span = 1 + sum((axis.extent - 1) * axis.strides[place] for axis in _axes(form))
        if span >= MAX_SPAN:
            raise UncoveredError(f"{name} spans {span} elements; the GEMM recipe covers fewer than 2**31.")
    return form
