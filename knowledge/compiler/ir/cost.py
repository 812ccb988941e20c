"""What work costs, for whoever decides before anything is timed: one set of constants a kind of device.

How long a tile of a product takes hangs on its kernel as much as on the device: `cycles` beside each exemplar's knobs.
"""

from __future__ import annotations

from dataclasses import dataclass

from knowledge.compiler.ir.expressions import Node
from knowledge.compiler.ir.nodes import elements
from knowledge.compiler.ir.primitives import PRIMITIVES

CALL = 8
"""Of a function, in operations."""
WORTH_MEMORY = 120
"""Operations that cost as much as an element's way to memory and back: 8 bytes at 15 operations a byte (an H200's)."""
WORTH_CACHE = 6
"""The same of an element that stays in a processor's first caches, where it is stored and loaded eight at a time."""
WORTH_THREADS, SURELY_WORTH_THREADS = 16 << 10, 64 << 10
"""Below this many elements starting a second thread costs more than it saves (about 5 us on a server core); from the
other number on it gains even where registers are full and nothing is slow (0.2 ns an element)."""
THREADING_FLOPS, SURELY_THREADING_FLOPS = 1 << 20, 1 << 23
"""The same of products: below this one is over before threads wake (one core does some 5e10 FLOP/s)."""
LAUNCHES_OF_BYTES = 16 << 20
"""What a GPU moves in the time that some launches take."""


@dataclass(frozen=True)
class Reached:
    """Shares of a device's rates that the general schedule may be trusted to reach, and the `start_ms` of each kernel.

    `memory`: of the measured rate, for what no cache holds; `cached`: of the same, for what the last cache holds.
    `elementwise`: of the float32 rate: an addition counts as one operation, and is half of what the rate counts.
    `reduced`: the same where a body is summed up: loops without the memory close to the cores, and no tensor cores.
    `contracted`: the same on tensor cores in three TF32 products, of whole waves of tiles: KernelBench's convolutions
    reach 0.5 to 1.2 on an H200. `start_ms`: threads are woken, or a launch waits for the one before.
    """

    reduced: float
    start_ms: float
    memory: float = 0.7
    cached: float = 2.0
    elementwise: float = 0.25
    contracted: float = 0.6


REACHED_BY_A_PROCESSOR = Reached(reduced=0.15, start_ms=0.01)
REACHED_BY_A_GPU = Reached(reduced=0.05, start_ms=0.003)


def cost(node: Node) -> int:
    """Of one node without what it reads, in operations."""
    if node.kind != "compute" or node.op in ("cast", "select"):
        return 0
    return CALL if "(" in PRIMITIVES[node.op].element else 1


def operations(body: Node) -> int:
    """Of an element, each of its nodes once."""
    return sum(map(cost, elements(body)))
