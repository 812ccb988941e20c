"""What the compiler's kernels for a window would take, by what they move and compute; asked before one is written.

The rates are shares of the device's that the general schedule may be trusted to reach: a kernel that turns out slower
costs a run of the agents and is dropped, one that is not tried gains nothing.
"""

from __future__ import annotations

from math import prod

from harness.nouns.device_facts import DeviceFacts
from knowledge.compiler.fusion import CALL
from knowledge.compiler.loops import Nest
from knowledge.compiler.nodes import Element, elements
from knowledge.compiler.recipe import compiled
from knowledge.playbook.expressions import Node, UnwritableError
from knowledge.playbook.primitives import PRIMITIVES
from knowledge.playbook.problem import Problem, Tensor
from knowledge.playbook.source_text import BYTES

MEMORY = 0.7
"""Of the measured rate, for what no cache holds."""
CACHED = 2.0
"""Of the same rate, for what the last cache holds."""
ELEMENTWISE = 0.25
"""Of the float32 rate: an addition counts as one of its operations, and is half of what the rate counts."""
REDUCED = {"cpu": 0.15, "cuda": 0.05}
"""The same where a body is summed up: loops without the memory close to the cores, and no tensor cores."""
START_MS = {"cpu": 0.01, "cuda": 0.003}
"""Of each kernel: threads are woken, or a launch waits for the one before."""


def estimate_ms(problem: Problem, facts: DeviceFacts) -> float | None:
    """Milliseconds of one call; None for what the compiler cannot write."""
    try:
        nests = compiled(problem).nests
    except UnwritableError:
        return None
    return sum(_nest_ms(nest, problem.target, facts) for nest in nests)


def _nest_ms(nest: Nest, target: str, facts: DeviceFacts) -> float:
    points = prod(axis.extent for axis in nest.axes)
    along = prod(axis.extent for axis in nest.reduced) * (nest.scanned.extent if nest.scanned else 1)
    moved = _bytes(nest, points, points * along)
    share = MEMORY if moved > facts.l3_bytes else CACHED
    moving = moved / (facts.peak_gb_s * 1e6 * share)
    stored = points * sum(_operations(store.body) for store in nest.stores)
    summed = points * along * sum(1 + _operations(total.body) for total in nest.totals)
    rate = facts.peak_gflop_s * 1e6
    return max(moving, stored / (rate * ELEMENTWISE) + summed / (rate * REDUCED[target])) + START_MS[target]


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
