"""Any graph of elementwise operations, fused into one pass over memory for each shape among the outputs."""

from __future__ import annotations

from collections.abc import Iterable

from knowledge.playbook import cuda_pointwise
from knowledge.playbook import pointwise_text as text
from knowledge.playbook.emission import LANE_TYPES, WIDE
from knowledge.playbook.expressions import Node, UnwritableError
from knowledge.playbook.operations import lower_problem
from knowledge.playbook.pointwise_pass import Pass, passes_of
from knowledge.playbook.primitives import PRIMITIVES
from knowledge.playbook.problem import Problem
from knowledge.playbook.promotion import computed_in
from knowledge.playbook.recipe import Decline, Move, Plan
from knowledge.playbook.source_text import BYTES

# Below this many elements starting a second thread costs more than it saves (about 5 us on a server core).
WORTH_THREADS = 16 << 10
SMALL_TILE = 2 << 10
TILES = (512, 1024, 4096, 8192)


class PointwiseRecipe:
    """One pass over memory; each element is loaded once, computed in registers and stored once."""

    name = "pointwise"

    def first_plan(self, problem: Problem) -> Plan | Decline:
        """The plain loop; declines graphs with an operation that is not elementwise."""
        try:
            lowered = lower_problem(problem)
            passes_of(lowered)
        except UnwritableError as failure:
            return Decline(str(failure))
        return Plan(self.name)

    def moves(self, problem: Problem, plan: Plan) -> tuple[Move, ...]:
        """Threads, SIMD, exact math, streaming stores, then unrolling and another tile."""
        if problem.target == "cuda":
            return cuda_pointwise.moves(problem, plan)
        passes = passes_of(lower_problem(problem))
        makers = (_threads, _exact, _simd, _streaming, _unroll, _tile)
        moves = (maker(problem, plan, passes) for maker in makers)
        return tuple(move for move in moves if move is not None)

    def render(self, problem: Problem, plan: Plan) -> str:
        """The kernel's source."""
        if problem.target == "cuda":
            return cuda_pointwise.render(problem, plan)
        lowered = lower_problem(problem)
        return text.render(problem, plan, lowered, passes_of(lowered))


Passes = tuple[Pass, ...]


def _threads(problem: Problem, plan: Plan, passes: Passes) -> Move | None:
    if "threads" in plan.knobs or problem.device.threads < 2 or max(each.numel for each in passes) < WORTH_THREADS:
        return None
    why = f"the tiles are independent: {problem.device.threads} threads share them"
    return Move("threads", why, plan.with_knobs(threads=1))


def lanes_for(nodes: Iterable[Node], simd_floats: int) -> int:
    """Elements a register: half as many where 8-byte types take part; 1 where some type has no lanes."""
    dtypes = {node.dtype for node in nodes}
    if not dtypes <= LANE_TYPES.keys():
        return 1
    return simd_floats // 2 if dtypes & set(WIDE) else simd_floats


def _lanes(problem: Problem, plan: Plan, passes: Passes) -> int:
    """Elements a register that this plan has or could have; 1 where SIMD has no place."""
    if "lanes" in plan.knobs:
        return int(plan.knobs["lanes"])
    lanes = lanes_for((node for each in passes for node in each.nodes if not node.uniform), problem.device.simd_floats)
    return lanes if max(each.space.columns for each in passes) >= lanes else 1


def _simd(problem: Problem, plan: Plan, passes: Passes) -> Move | None:
    lanes = _lanes(problem, plan, passes)
    if "lanes" in plan.knobs or lanes < 2:
        return None
    return Move("SIMD", f"one instruction computes {lanes} elements", plan.with_knobs(lanes=lanes))


def slow_primitives(nodes: Iterable[Node]) -> tuple[str, ...]:
    """The libm functions among `nodes` that the playbook has a faster form of."""
    slow = {
        node.op
        for node in nodes
        if node.kind == "compute" and node.op in PRIMITIVES and PRIMITIVES[node.op].exact
        if computed_in(node.dtype) == "float32"
    }
    return tuple(sorted(slow))


def _exact(problem: Problem, plan: Plan, passes: Passes) -> Move | None:
    """Brings SIMD along where the plan has none: registers alone gain nothing while libm takes one element a call."""
    slow = slow_primitives(node for each in passes for node in each.nodes)
    lanes = _lanes(problem, plan, passes)
    if "exact" in plan.knobs or lanes < 2 or not slow:
        return None
    why = f"branch-free polynomials for {', '.join(slow)} keep the registers full; libm takes one element a call"
    return Move("cheaper exact math", why, plan.with_knobs(lanes=lanes, exact=1))


def _streaming(problem: Problem, plan: Plan, passes: Passes) -> Move | None:
    """Brings SIMD along where the plan has none: only whole registers can be streamed."""
    written = sum(tensor.numel * BYTES[tensor.dtype] for tensor in problem.outputs)
    lanes = _lanes(problem, plan, passes)
    if "streaming" in plan.knobs or lanes < 2 or written < problem.device.l3_bytes // 2:
        return None
    return Move("streaming stores", streaming_reason(written), plan.with_knobs(lanes=lanes, streaming=1))


def streaming_reason(written: int) -> str:
    """Why stores should bypass the caches."""
    size = f"{written >> 20} MiB"
    return f"the {size} written do not stay in the cache: stores that bypass it save reading the lines first"


def _unroll(problem: Problem, plan: Plan, passes: Passes) -> Move | None:
    if "unroll" in plan.knobs or "lanes" not in plan.knobs:
        return None
    return Move("unroll", "four independent registers hide the latency of one", plan.with_knobs(unroll=4))


def _tile(problem: Problem, plan: Plan, passes: Passes) -> Move | None:
    if (
        "tile" in plan.knobs
        or "threads" not in plan.knobs
        or max(each.space.columns for each in passes) < 4 * SMALL_TILE
    ):
        return None
    why = "a tile's loop costs little beside its elements, and its operands stay in a cache: which one, a trial tells"
    return Move("tile size", why, plan.with_knobs(tile=SMALL_TILE), sweep={"tile": TILES})
