"""Any graph of elementwise operations, fused into one pass over memory for each shape among the outputs."""

from __future__ import annotations

from knowledge.compiler.emit.float8 import with_float8
from knowledge.compiler.ir.cost import SURELY_WORTH_THREADS, WORTH_THREADS
from knowledge.compiler.ir.dtypes import BYTES
from knowledge.compiler.ir.expressions import UnwritableError
from knowledge.compiler.plan import Decline, Move, Plan
from knowledge.compiler.problem import Problem
from knowledge.compiler.schedule import cpu_moves
from knowledge.compiler.schedule.cpu_moves import lanes_for
from knowledge.compiler.schedule.pointwise import cuda, text
from knowledge.compiler.schedule.pointwise.text import Pass, passes_of
from knowledge.compiler.schedule.strided_reading import lower_problem

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
        if problem.on_gpu:
            return cuda.moves(problem, plan)
        passes = passes_of(lower_problem(problem))
        makers = (_threads, _exact, _simd, _streaming, _unroll, _tile)
        moves = (maker(problem, plan, passes) for maker in makers)
        return tuple(move for move in moves if move is not None)

    def render(self, problem: Problem, plan: Plan) -> str:
        """The kernel's source."""
        if problem.on_gpu:
            return with_float8(problem, cuda.render(problem, plan))
        lowered = lower_problem(problem)
        return with_float8(problem, text.render(problem, plan, lowered, passes_of(lowered)))


Passes = tuple[Pass, ...]


def _threads(problem: Problem, plan: Plan, passes: Passes) -> Move | None:
    elements = max(each.numel for each in passes)
    if "threads" in plan.knobs or problem.device.threads < 2 or elements < WORTH_THREADS:
        return None
    why = f"the tiles are independent: {problem.device.threads} threads share them"
    return Move("threads", why, plan.with_knobs(threads=1), sure=elements >= SURELY_WORTH_THREADS)


def _lanes(problem: Problem, plan: Plan, passes: Passes) -> int:
    """Elements a register that this plan has or could have; 1 where SIMD has no place."""
    if "lanes" in plan.knobs:
        return int(plan.knobs["lanes"])
    lanes = lanes_for((node for each in passes for node in each.nodes if not node.uniform), problem.device.simd_floats)
    return lanes if max(each.space.columns for each in passes) >= lanes else 1


def _simd(problem: Problem, plan: Plan, passes: Passes) -> Move | None:
    return cpu_moves.simd(plan, _lanes(problem, plan, passes), "elements")


def _exact(problem: Problem, plan: Plan, passes: Passes) -> Move | None:
    return cpu_moves.exact(plan, _lanes(problem, plan, passes), (node for each in passes for node in each.nodes))


def _streaming(problem: Problem, plan: Plan, passes: Passes) -> Move | None:
    written = sum(tensor.numel * BYTES[tensor.dtype] for tensor in problem.outputs)
    return cpu_moves.streaming(problem, plan, _lanes(problem, plan, passes), written)


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
