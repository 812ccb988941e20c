"""The same products on Hopper's own instructions: warpgroups that read and such that multiply (contract_wgmma.cu).

Knob: `wgmma`, 0 for none of it. It takes operands of one type, float32 or of 16 bits, whose neighbours in memory are
columns, or k's in words of 16 bytes, and tiles for half of the multiprocessors; else the tiles of
`schedule/loops/cuda_contract.py` are as good.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from knowledge.compiler.emit.elements import STORED_TYPES
from knowledge.compiler.emit.source_text import truth
from knowledge.compiler.emit.spelling import Statements, Views
from knowledge.compiler.ir.dtypes import BYTES
from knowledge.compiler.ir.nodes import Element
from knowledge.compiler.problem import Problem
from knowledge.compiler.schedule.loops.contraction import Contraction
from knowledge.compiler.schedule.loops.cuda_contract import ContractText, products_of

# A tile's row of k's, in float32 and in bytes.
K, ROW_BYTES = 32, 128
# A block's shared memory.
SHARED_BYTES = 227 << 10
# What eight warps hold of their results on the way to memory: 16 rows of 40.
PIECES_BYTES = 8 * 16 * 40 * 4
# More would leave less of it as cache for windows that overlap.
MOST_STAGES = 4
# Packed elements that cost what one result does that is stored apart from its neighbours; and packed elements a result
# beyond which the left operand had better be read where it lies.
LONE_STORE, MOST_PACKED = 8, 0.5
# Of the multiprocessors, how many have to have a tile.
BUSY = 0.5
# Of a multiprocessor in a cycle: products in TF32, and bytes of shared memory.
MULTIPLIED, SERVED = 1024, 128


@dataclass(frozen=True)
class Background:
    """A block's tile, two warpgroups' products of which run in the background."""

    bm: int
    bn: int

    def stage_bytes(self, products: int) -> int:
        """Both operands' tiles, for three products with what rounding left over."""
        return (self.bm + self.bn) * ROW_BYTES * (2 if products == 3 else 1)

    def stages(self, products: int) -> int:
        """As many as shared memory holds."""
        return min((SHARED_BYTES - PIECES_BYTES - 16) // (self.stage_bytes(products) + 16), MOST_STAGES)

    def cycles(self, products: int) -> float:
        """For 32 k's of a tile: the tensor cores, or shared memory, from which each warpgroup reads what it multiplies.

        A warpgroup multiplies 64 rows by its columns, all of a tile's where that has 128 rows, else half of them.
        """
        columns = self.bn * self.bm // 128
        read = 2 * (64 + columns) * K * 4 * products
        return max(self.bm * self.bn * K * products / MULTIPLIED, (read + self.stage_bytes(products)) / SERVED)

    def tiles(self, made: Contraction) -> int:
        """Of all batches."""
        batches, m, n, _ = made.sizes
        return batches * -(-m // self.bm) * -(-n // self.bn)


# One product: a warpgroup has a tile and 128 sums a thread. Three: two warpgroups share one, for they keep the sums of
# 32 k's apart.
TILES = (Background(128, 128), Background(64, 128))


def fitting(problem: Problem, made: Contraction, knobs: Mapping[str, object]) -> Background | None:
    """The tile that should need the fewest cycles; None where the schedule does not pay."""
    device, products, blocks = problem.device, products_of(problem, made, knobs), problem.device.multiprocessors
    taken = "bm" in knobs or knobs.get("wgmma") == 0
    if taken or not device.has.wgmma or not blocks or made.sizes[3] < 2 * K:
        return None
    if made.left.dtype != made.right.dtype or (made.k_major and not _in_words(made)):
        return None
    busy = [tile for tile in TILES if tile.tiles(made) >= BUSY * blocks]
    return min(busy, key=lambda tile: -(-tile.tiles(made) // blocks) * tile.cycles(products), default=None)


def background(problem: Problem, made: Contraction, knobs: Mapping[str, object]) -> Contraction | None:
    """The product with its operands on the sides where they move least; None where the schedule does not pay.

    The left operand is packed, and results with neighbours along neither rows nor columns are stored one by one. An
    image stays on the right.
    """

    def moved(each: Contraction) -> int:
        batches, m, n, k = each.sizes
        return batches * m * (k + (LONE_STORE * n if each.stores_apart and not each.down else 0))

    tried = (made, made.turned if made.k_major else None)
    found = [each for each in tried if each is not None and fitting(problem, each, knobs)]
    best = min(found, key=moved, default=None)
    if best is None or not (made.direct and made.k_major):
        return best
    results = prod(best.sizes[:3])
    # Else the tiles of `cuda_contract`, which read the left operand where it lies.
    return best if moved(best) <= MOST_PACKED * results else None


def _in_words(made: Contraction) -> bool:
    """Whether the right operand's neighbours are k's that a thread reads 16 bytes at a time."""
    return made.k_major and made.apart == 1 and made.together(16 // BYTES[made.right.dtype])


class _ReadOnly(Statements):
    """Reads what the kernel never writes, so that nvcc may read it before the stores of other results."""

    def loaded(self, node: Element, place: str) -> str:
        written = {store.tensor.name for store in self.nest.stores}
        plain = node.dtype == "float32" and self.nest.tensor(node).name not in written
        return f"__ldg(&{place})" if plain else place


class BackgroundText(ContractText):
    """One kernel of this schedule: what its engine is told of it."""

    exemplar = "contract_wgmma"
    space = "background"

    def _own(self) -> list[str]:
        tile = self._fitting
        return [
            f"using Element = {STORED_TYPES[self.made.right.dtype]};",
            f"static constexpr bool Wide = {truth(_in_words(self.made))}, "
            f"Down = {truth(self._columns == 1 and self.made.down)};",
            f"using BLK_M = Int<{tile.bm}>;",
            f"using BLK_N = Int<{tile.bn}>;",
            f"static constexpr int Stages = {tile.stages(self.products)}, "
            f"Blocks = {self.problem.device.multiprocessors};  // at once",
        ]

    def _statements(self) -> Statements:
        return _ReadOnly(self.nest, Views(self.stems), self.scalars, None, exact=False)

    @property
    def _read_in_words(self) -> list[Element]:
        return [self.made.right] if _in_words(self.made) else []

    @property
    def _fitting(self) -> Background:
        tile = fitting(self.problem, self.made, self.knobs)
        assert tile is not None, "File._for_a_gpu has asked"
        return tile

    @property
    def _budget(self) -> str:
        tile, products = self._fitting, self.products
        parts = " x 2" if products == 3 else ""
        stages = tile.stages(products)
        whole = stages * (tile.stage_bytes(products) + 16) + 16 + PIECES_BYTES
        operands = f"({tile.bm} + {tile.bn}) x {ROW_BYTES}{parts} x {stages}"
        return f"{operands}, results {PIECES_BYTES}, barriers 16 x {stages} + 16 = {whole} bytes"
