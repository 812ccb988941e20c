"""How rows lie on a GPU's threads, so that each thread holds few of their elements (`schedule/loops/held.py`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from knowledge.compiler.emit.cuda_frame import PACK_BYTES
from knowledge.compiler.ir.index import Axis, Index
from knowledge.compiler.problem import Device

MOST = 64
"""Elements that a thread holds."""
WANTED = 32
"""Elements that leave a multiprocessor room for two blocks or more."""
THREADS, MOST_THREADS = 256, 512
CLUSTERS = (1, 2, 4, 8)
"""Blocks of a cluster that every GPU with clusters runs."""
SECTOR, LINE = 32, 128
"""Bytes that memory moves at once, and that a request of a warp's looks up."""


@dataclass(frozen=True)
class Shape:
    """How rows lie on threads: `apart` threads have neighbouring places, `shares` of them a row, in a block of `block`.

    Each moves `vector` elements at once: of neighbouring rows if those are neighbours in memory, else of one row. A
    row longer than a block's is that of a `cluster` of blocks.
    """

    vector: int
    apart: int
    shares: int
    block: int
    cluster: int = 1

    @property
    def steps(self) -> int:
        """Threads, or packs at a time, of a row."""
        return self.shares * self.cluster


@dataclass(frozen=True)
class Ask:
    """What is laid out: `rows` of `steps` elements of `size` bytes, each held in `arrays` forms at once.

    `along_steps`: neighbours in memory are of one row.
    """

    along_steps: bool
    steps: int
    rows: int
    size: int
    arrays: int
    device: Device

    def best(self, vector: int) -> Shape | None:
        """That of the fewest registers, blocks and idle threads, in packs of up to `vector`; None where none fits."""
        shapes = (shape for by in (8, 4, 2, 1) if by <= vector for shape in self._shapes(by))
        return min((each for each in shapes if self.held(each) * self.arrays <= MOST), key=self._rank, default=None)

    def held(self, shape: Shape) -> int:
        """Elements of a thread."""
        along = shape.vector if self.along_steps else 1
        return -(-self.steps // (shape.steps * along)) * shape.vector

    def _rank(self, shape: Shape) -> tuple[float, ...]:
        held = self.held(shape)
        rows = shape.block // shape.shares * (1 if self.along_steps else shape.vector)
        blocks = min(-(-self.rows // rows), self.device.multiprocessors)
        near = -min(held, WANTED // 2) if self.along_steps else -shape.apart
        return (held * self.arrays > WANTED, shape.cluster, -blocks, shape.block > THREADS, -shape.vector,
                self._reach(shape) < LINE, near, held * shape.steps, shape.shares)  # fmt: skip

    def _reach(self, shape: Shape) -> int:
        """Bytes that neighbours read at once, up to a line."""
        return min(shape.shares if self.along_steps else shape.apart, 8) * shape.vector * self.size

    def _shapes(self, vector: int) -> Iterator[Shape]:
        """All that read whole sectors and leave less than half of the threads without elements."""
        for apart in (1,) if self.along_steps else (32, 16, 8):
            for shares in (1 << each for each in range(10) if apart << each <= MOST_THREADS):
                block = max(THREADS, apart * shares)
                shared = self.along_steps and shares == block and self.device.has.clusters
                for cluster in CLUSTERS if shared else CLUSTERS[:1]:
                    shape = Shape(vector, apart, shares, block, cluster)
                    taken = self.held(shape) * shape.steps // (1 if self.along_steps else vector)
                    if taken <= 2 * self.steps and self._reach(shape) >= SECTOR:
                        yield shape


def packed(addresses: Sequence[Index], column: Axis, size: int) -> int:
    """Neighbours along a column that are moved at once: what divides all strides of what lies along it."""
    near = [each for each in addresses if each.times(column) == 1]
    by = PACK_BYTES // size
    while by > 1 and (column.extent % by or any(not divides(each, column, by) for each in near)):
        by //= 2
    return by if near else 1


def divides(address: Index, column: Axis, by: int) -> bool:
    """Whether what lies at an address begins at whole packs."""
    others = [times for atom, times in address.terms if atom != column]
    return address.offset % by == 0 and all(times % by == 0 for times in others)
