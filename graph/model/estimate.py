"""What the compiler's kernels for a window would take, by what they move and compute; asked before one is written.

The rates are shares of the device's that the general schedule may be trusted to reach: a kernel that turns out slower
costs a run of the agents and is dropped, one that is not tried gains nothing.
"""

from __future__ import annotations

from math import ceil, prod

from harness.nouns.device_facts import DeviceFacts
from knowledge.compiler.ir.dtypes import BYTES
from knowledge.compiler.ir.expressions import Node, UnwritableError
from knowledge.compiler.ir.nodes import Element, Values, elements
from knowledge.compiler.ir.primitives import PRIMITIVES
from knowledge.compiler.passes.fusion import CALL
from knowledge.compiler.passes.loops import Nest
from knowledge.compiler.problem import Problem, Tensor
from knowledge.compiler.schedule.loops.contraction import Contraction
from knowledge.compiler.schedule.loops.cuda_contract import chosen, matches
from knowledge.compiler.schedule.loops.recipe import compiled

MEMORY = 0.7
"""Of the measured rate, for what no cache holds."""
CACHED = 2.0
"""Of the same rate, for what the last cache holds."""
ELEMENTWISE = 0.25
"""Of the float32 rate: an addition counts as one of its operations, and is half of what the rate counts."""
REDUCED = {"cpu": 0.15, "cuda": 0.05}
"""The same where a body is summed up: loops without the memory close to the cores, and no tensor cores."""
CONTRACTED = 0.6
"""The same on tensor cores in three TF32 products, of whole waves of tiles: KernelBench's convolutions reach 0.5 to 1.2
on an H200."""
START_MS = {"cpu": 0.01, "cuda": 0.003}
"""Of each kernel: threads are woken, or a launch waits for the one before."""


def estimate_ms(problem: Problem, facts: DeviceFacts) -> float | None:
    """Milliseconds of one call; None for what the compiler cannot write."""
    try:
        made = compiled(problem)
    except UnwritableError:
        return None
    return sum(_nest_ms(nest, problem, made.graph, facts) for nest in made.nests)


def _nest_ms(nest: Nest, problem: Problem, graph: Values, facts: DeviceFacts) -> float:
    points = prod(axis.extent for axis in nest.axes)
    along = prod(axis.extent for axis in nest.reduced) * (nest.scanned.extent if nest.scanned else 1)
    moved = _bytes(nest, points, points * along)
    share = MEMORY if moved > facts.l3_bytes else CACHED
    moving = moved / (facts.peak_gb_s * 1e6 * share)
    stored = points * sum(_operations(store.body) for store in nest.stores)
    summed = points * along * sum(1 + _operations(total.body) for total in nest.totals)
    rate, target = facts.peak_gflop_s * 1e6, problem.target
    tiled = matches(problem, nest, graph) if target == "cuda" else None
    if tiled is not None:
        summing = _in_tiles(tiled, problem) / (rate * CONTRACTED)
    else:
        summing = summed / (rate * REDUCED[target])
    return max(moving, stored / (rate * ELEMENTWISE) + summing) + START_MS[target]


def _in_tiles(made: Contraction, problem: Problem) -> float:
    """Operations of all waves of blocks; the last counts in full, and so do tiles beyond the result."""
    tile, (batches, m, n, k) = chosen(made, problem.device), made.sizes
    at_once = max(problem.device.multiprocessors, 1) * tile.blocks
    tiles = batches * ceil(m / tile.bm) * ceil(n / tile.bn)
    return 2.0 * ceil(tiles / at_once) * at_once * tile.bm * tile.bn * k


def _bytes(nest: Nest, points: int, steps: int) -> int:
    """Each tensor once: what is read of it at most, and every element that is stored."""
    read: dict[str, Tensor] = {}
    for node in elements(*nest.bodies):
        if isinstance(node, Element) and node.kind == "read":
            read[nest.tensor(node).name] = nest.tensor(node)
    taken = sum(min(each.numel, steps) * BYTES[each.dtype] for each in read.values())
    return taken + sum(points * BYTES[store.tensor.dtype] for store in nest.stores)


def _operations(body: Node) -> int:
    """Of an element; a function counts as `CALL`."""
    made = (node for node in elements(body) if node.kind == "compute" and node.op not in ("cast", "select"))
    return sum(CALL if "(" in PRIMITIVES[node.op].element else 1 for node in made)
