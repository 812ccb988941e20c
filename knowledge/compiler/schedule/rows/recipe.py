"""Reductions along rows with everything elementwise around them: softmax, norms, sums, extrema, losses."""

from __future__ import annotations

from knowledge.compiler.emit.elements import REDUCERS
from knowledge.compiler.emit.float8 import with_float8
from knowledge.compiler.ir.cost import SURELY_WORTH_THREADS, WORTH_THREADS
from knowledge.compiler.ir.dtypes import BYTES
from knowledge.compiler.ir.expressions import UnwritableError
from knowledge.compiler.passes.row_program import RowProgram
from knowledge.compiler.passes.staging import TERMS
from knowledge.compiler.plan import Decline, Move, Plan
from knowledge.compiler.problem import Problem
from knowledge.compiler.schedule import cpu_moves
from knowledge.compiler.schedule.cpu_moves import lanes_for
from knowledge.compiler.schedule.rows import cuda, text
from knowledge.compiler.schedule.strided_reading import lower_problem

# A buffer of one row must leave room in the second cache and on a thread's stack.
LARGEST_BUFFER_BYTES = 256 << 10
# Processors fetch what follows by themselves, but no further than the page's end.
PAGE_BYTES = 4 << 10


class RowRecipe:
    """Sweeps over rows that stay in the cache."""

    name = "rows"

    def first_plan(self, problem: Problem) -> Plan | Decline:
        """One row after the other, one element after the other; declines where there is no common row."""
        try:
            program = RowProgram(lower_problem(problem))
        except UnwritableError as failure:
            return Decline(str(failure))
        if problem.on_gpu and _extent(program)[1] <= TERMS:
            return Decline("rows of few elements, which loops write out")
        if problem.on_gpu and cuda.starved(problem, Plan(self.name)):
            return Decline("rows too few for the GPU, which several sweeps go along")
        return Plan(self.name)

    def steps_apart(self, problem: Problem) -> bool:
        """Whether columns lie apart in memory, in rows enough for all threads. `first_plan` takes the problem."""
        program = RowProgram(lower_problem(problem))
        return program.steps_apart and _extent(program)[0] >= 2 * problem.device.threads

    def moves(self, problem: Problem, plan: Plan) -> tuple[Move, ...]:
        """Threads, SIMD, a buffered row, exact math, several accumulators, streaming stores, the next row fetched."""
        if problem.on_gpu:
            return cuda.moves(problem, plan)
        program = RowProgram(lower_problem(problem))
        makers = (_threads, _exact, _simd, _keep, _accumulators, _streaming, _prefetch)
        moves = (maker(problem, plan, program) for maker in makers)
        return tuple(move for move in moves if move is not None)

    def render(self, problem: Problem, plan: Plan) -> str:
        """The kernel's source."""
        if problem.on_gpu:
            return with_float8(problem, cuda.render(problem, plan))
        lowered = lower_problem(problem)
        return with_float8(problem, text.render(problem, plan, lowered, RowProgram(lowered)))


def _extent(program: RowProgram) -> tuple[int, int]:
    """Rows and columns."""
    return program.rows.columns * program.rows.rows, program.columns.columns * program.columns.rows


def _threads(problem: Problem, plan: Plan, program: RowProgram) -> Move | None:
    rows, columns = _extent(program)
    threads = problem.device.threads
    if "threads" in plan.knobs or threads < 2 or rows * columns < WORTH_THREADS:
        return None
    sure = rows * columns >= SURELY_WORTH_THREADS
    if rows >= 2 * threads:
        why = f"the rows are independent: {threads} threads share them"
        return Move("threads", why, plan.with_knobs(threads="rows"), sure=sure)
    if any(not REDUCERS[each.op].clause for each in program.reductions):
        return None
    why = f"with {rows} rows the {threads} threads share each row's columns and join their partial results"
    return Move("threads", why, plan.with_knobs(threads="columns"), sure=sure)


def _lanes(problem: Problem, plan: Plan, program: RowProgram) -> int:
    """Columns a register that this plan has or could have; 1 where SIMD has no place."""
    if "lanes" in plan.knobs:
        return int(plan.knobs["lanes"])
    _, columns = _extent(program)
    lanes = lanes_for((node for node in program.nodes if not program.flat(node)), problem.device.simd_floats)
    return lanes if columns >= lanes and all(REDUCERS[each.op].lanes for each in program.reductions) else 1


def _simd(problem: Problem, plan: Plan, program: RowProgram) -> Move | None:
    return cpu_moves.simd(plan, _lanes(problem, plan, program), "columns")


def _exact(problem: Problem, plan: Plan, program: RowProgram) -> Move | None:
    columns = (node for node in program.nodes if not program.flat(node))
    return cpu_moves.exact(plan, _lanes(problem, plan, program), columns)


def _keep(problem: Problem, plan: Plan, program: RowProgram) -> Move | None:
    _, columns = _extent(program)
    size = sum(columns * BYTES.get(node.dtype, 8) for node in program.kept)
    if "keep" in plan.knobs or not 0 < size <= LARGEST_BUFFER_BYTES or plan.knobs.get("threads") == "columns":
        return None
    ops = ", ".join(sorted({node.op for node in program.kept}))
    why = f"{ops} once an element: the results stay in a buffer of one row until the next sweep"
    return Move("keep the row", why, plan.with_knobs(keep=1), sure=True)


def _accumulators(problem: Problem, plan: Plan, program: RowProgram) -> Move | None:
    _, columns = _extent(program)
    lanes = int(plan.knobs.get("lanes", 1))
    if "accumulators" in plan.knobs or lanes < 2 or columns < 4 * lanes:
        return None
    why = "four independent partial results hide the latency of one addition"
    return Move("multiple accumulators", why, plan.with_knobs(accumulators=4), sure=True)


def _streaming(problem: Problem, plan: Plan, program: RowProgram) -> Move | None:
    written = sum(each.tensor.numel * BYTES[each.tensor.dtype] for each in program.targets if program.is_full(each))
    return cpu_moves.streaming(problem, plan, _lanes(problem, plan, program), written)


def _prefetch(problem: Problem, plan: Plan, program: RowProgram) -> Move | None:
    """Where a row is a page at least, and leaves room in the second cache for the one before it and for its results."""
    rows, columns = _extent(program)
    row = sum(columns * BYTES[load.dtype] for load in program.by_rows)
    if "prefetch" in plan.knobs or "lanes" not in plan.knobs or plan.knobs.get("threads") == "columns":
        return None
    if program.sweeps < 2 or not PAGE_BYTES <= row <= problem.device.l2_bytes // 4:
        return None
    why = "the next row is on its way from memory while this one is computed"
    return Move("prefetch", why, plan.with_knobs(prefetch=1), sure=rows * row > problem.device.l3_bytes)
