"""What loops would take on a device, by what they move and compute; asked before a kernel is written.

A kernel that turns out slower costs a run of the agents and is dropped, one that is not tried gains nothing.
"""

from __future__ import annotations

from math import ceil, prod

from harness.nouns.device_facts import DeviceFacts
from knowledge.compiler.ir.cost import REACHED_BY_A_GPU, REACHED_BY_A_PROCESSOR, operations
from knowledge.compiler.ir.dtypes import BYTES
from knowledge.compiler.ir.expressions import UnwritableError
from knowledge.compiler.ir.nodes import Element, Values, elements
from knowledge.compiler.passes.loops import Nest
from knowledge.compiler.problem import Problem, Tensor
from knowledge.compiler.schedule.loops.contraction import Contraction
from knowledge.compiler.schedule.loops.cuda_contract import chosen, matches
from knowledge.compiler.schedule.loops.recipe import compiled


def estimate_ms(problem: Problem, facts: DeviceFacts) -> float | None:
    """Milliseconds of one call; None for what the compiler cannot write."""
    try:
        made = compiled(problem)
    except UnwritableError:
        return None
    return sum(_nest_ms(nest, problem, made.graph, facts) for nest in made.nests)


def _nest_ms(nest: Nest, problem: Problem, graph: Values, facts: DeviceFacts) -> float:
    reached = REACHED_BY_A_GPU if problem.on_gpu else REACHED_BY_A_PROCESSOR
    points = prod(axis.extent for axis in nest.axes)
    along = prod(axis.extent for axis in nest.reduced) * (nest.scanned.extent if nest.scanned else 1)
    moved = _bytes(nest, points, points * along)
    share = reached.memory if moved > facts.l3_bytes else reached.cached
    moving = moved / (facts.peak_gb_s * 1e6 * share)
    stored = points * sum(operations(store.body) for store in nest.stores)
    summed = points * along * sum(1 + operations(total.body) for total in nest.totals)
    rate = facts.peak_gflop_s * 1e6
    tiled = matches(problem, nest, graph) if problem.on_gpu else None
    if tiled is not None:
        summing = _in_tiles(tiled, problem) / (rate * reached.contracted)
    else:
        summing = summed / (rate * reached.reduced)
    return max(moving, stored / (rate * reached.elementwise) + summing) + reached.start_ms


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
