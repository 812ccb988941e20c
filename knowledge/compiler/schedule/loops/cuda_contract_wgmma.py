"""The same products on Hopper's own instructions: warpgroups that read and such that multiply (contract_wgmma.cu).

Knob: `wgmma`, 0 for none of it. Operands of float32 whose neighbours in memory are columns, and tiles for half of the
multiprocessors, are what it takes; else the tiles of `schedule/loops/cuda_contract.py` are as good.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from knowledge.compiler.emit.spelling import Statements, Views
from knowledge.compiler.ir.nodes import Element
from knowledge.compiler.problem import Problem
from knowledge.compiler.schedule.loops.contraction import Contraction
from knowledge.compiler.schedule.loops.cuda_contract import ContractText, products_of

K = 32
# A block's shared memory.
SHARED_BYTES = 227 << 10
# What eight warps hold of their results on the way to memory: 16 rows of 40.
PIECES_BYTES = 8 * 16 * 40 * 4
# More would leave less of it as cache for windows that overlap.
MOST_STAGES = 4
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
        return (self.bm + self.bn) * K * 4 * (2 if products == 3 else 1)

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
    if taken or not device.has.wgmma or not blocks or made.k_major or made.sizes[3] < 2 * K:
        return None
    if made.left.dtype != "float32" or made.right.dtype != "float32":
        return None
    busy = [tile for tile in TILES if tile.tiles(made) >= BUSY * blocks]
    return min(busy, key=lambda tile: -(-tile.tiles(made) // blocks) * tile.cycles(products), default=None)


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
            f"using BLK_M = Int<{tile.bm}>;",
            f"using BLK_N = Int<{tile.bn}>;",
            f"static constexpr int Stages = {tile.stages(self.products)}, "
            f"Blocks = {self.problem.device.multiprocessors};  // at once",
        ]

    def _statements(self) -> Statements:
        return _ReadOnly(self.nest, Views(self.stems), self.scalars, None, exact=False)

    @property
    def _read_in_words(self) -> list[Element]:
        return []

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
        operands = f"({tile.bm} + {tile.bn}) x {K}{parts} x {stages} x 4"
        return f"{operands}, results {PIECES_BYTES}, barriers 16 x {stages} + 16 = {whole} bytes"
