"""Strided views of tensors with hierarchical dimensions, so that a transpose or a reshape costs nothing.

A dimension is a tuple of modes, the slowest first; a mode is (extent, stride in elements). Two dimensions that were
merged by a reshape stay two modes of one dimension, the way a CuTe layout nests them. Modes of extent 1 are dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from knowledge.playbook.problem import Tensor

Mode = tuple[int, int]
Dim = tuple[Mode, ...]


class UncoveredError(Exception):
    """The GEMM family cannot write this problem; `str()` is a sentence for the user."""


@dataclass(frozen=True)
class View:
    """Elements of the tensor called `source`, seen through `dims`."""

    source: str
    dims: tuple[Dim, ...]

    @classmethod
    def of(cls, tensor: Tensor) -> View:
        """The tensor as it lies in memory."""
        return cls(tensor.name, tuple(_dim(mode) for mode in zip(tensor.shape, tensor.strides, strict=True)))

    @classmethod
    def contiguous(cls, source: str, shape: Sequence[int]) -> View:
        """A tensor of this shape, packed in row-major order."""
        strides = [prod(shape[i + 1 :]) for i in range(len(shape))]
        return cls(source, tuple(_dim(mode) for mode in zip(shape, strides, strict=True)))

    @property
    def shape(self) -> tuple[int, ...]:
        """Extent of every dimension."""
        return tuple(prod(extent for extent, _ in dim) for dim in self.dims)

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.dims)

    def permute(self, order: Sequence[int]) -> View:
        """Dimension i of the result is dimension `order[i]`; negative numbers count from the end."""
        return View(self.source, tuple(self.dims[axis] for axis in order))

    def swap(self, first: int, second: int) -> View:
        """The two dimensions exchanged."""
        dims = list(self.dims)
        dims[first], dims[second] = dims[second], dims[first]
        return View(self.source, tuple(dims))

    def broadcast(self, shape: Sequence[int]) -> View:
        """Expanded to `shape` by PyTorch's rules: repeated dimensions get stride 0.

        Raises UncoveredError where the shapes do not fit.
        """
        dims: tuple[Dim, ...] = ((),) * (len(shape) - self.rank) + self.dims
        if len(dims) != len(shape):
            raise UncoveredError(f"a tensor of shape {self.shape} does not broadcast to {tuple(shape)}.")
        return View(self.source, tuple(expand(dim, extent) for dim, extent in zip(dims, shape, strict=True)))

    def reshape(self, shape: Sequence[int]) -> View:
        """The same elements in row-major order under another shape, without a copy.

        Neighbours that one stride walks are merged first.
        Raises UncoveredError where a dimension would have to be cut at a place that its modes do not allow.
        """
        pending: list[Mode] = []
        for extent, stride in (mode for dim in self.dims for mode in dim):
            merges = pending and pending[-1][1] == extent * stride
            pending.append((pending.pop()[0] * extent, stride) if merges else (extent, stride))
        dims = [self._take(pending, extent) for extent in reversed(shape)]
        if pending:
            raise UncoveredError(f"{self.source} has more elements than shape {tuple(shape)}.")
        return View(self.source, tuple(reversed(dims)))

    def _take(self, pending: list[Mode], extent: int) -> Dim:
        """Cut a dimension of `extent` elements off the fast end of the modes."""
        dim: list[Mode] = []
        while extent > 1:
            if not pending:
                raise UncoveredError(f"{self.source} has too few elements for its new shape.")
            size, stride = pending.pop()
            if size > extent and size % extent == 0:
                pending.append((size // extent, stride * extent))
                size = extent
            if extent % size:
                raise UncoveredError(f"a reshape cuts a dimension of {self.source} unevenly.")
            dim.insert(0, (size, stride))
            extent //= size
        return tuple(dim)


def _dim(mode: Mode) -> Dim:
    return () if mode[0] == 1 else (mode,)


def expand(dim: Dim, extent: int) -> Dim:
    """The dimension repeated to `extent`. Raises UncoveredError where it is neither 1 nor `extent` long."""
    size = prod(e for e, _ in dim)
    if size not in (1, extent):
        raise UncoveredError(f"a dimension of {size} does not broadcast to {extent}.")
    return dim if size == extent else ((extent, 0),)


def pair(left: Dim, right: Dim) -> tuple[tuple[int, int, int], ...]:
    """Both dimensions cut alike: (extent, left stride, right stride), the slowest first.

    Raises UncoveredError where their cuts do not nest.
    """
    ours, theirs = list(left), list(right)
    pieces: list[tuple[int, int, int]] = []
    while ours and theirs:
        (our_extent, our_stride), (their_extent, their_stride) = ours.pop(), theirs.pop()
        extent = min(our_extent, their_extent)
        if our_extent % extent or their_extent % extent:
            raise UncoveredError(f"dimensions split as {left} and {right} do not line up.")
        pieces.insert(0, (extent, our_stride, their_stride))
        ours += [(our_extent // extent, our_stride * extent)] if our_extent > extent else []
        theirs += [(their_extent // extent, their_stride * extent)] if their_extent > extent else []
    if ours or theirs:
        raise UncoveredError(f"dimensions {left} and {right} differ in size.")
    return tuple(pieces)
