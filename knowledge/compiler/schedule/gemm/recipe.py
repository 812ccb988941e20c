"""The GEMM family's recipe: products of matrices, of a matrix and a vector."""

from __future__ import annotations

from knowledge.compiler.plan import Decline, Move, Plan
from knowledge.compiler.problem import Problem
from knowledge.compiler.schedule.gemm import cuda, rows, tiled, tiled_source
from knowledge.compiler.schedule.gemm.form import NARROW, UncoveredError
from knowledge.compiler.schedule.gemm.product import form_of
from knowledge.compiler.schedule.gemm.source import render_frame


class GemmRecipe:
    """Writes a forward that is one product of two operands, with what directly follows it fused in.

    Covers mm, bmm, mv, dot, matmul, addmm, baddbmm, linear and einsum of two operands, transposed and reshaped
    operands without a copy, triu and tril of a product: in float32 and float64 on the cpu, in float32,
    float16 and bfloat16 on a GPU. On Hopper in 16 bits also two products of one operand, as gated layers have them.
    """

    name = "gemm"

    def first_plan(self, problem: Problem) -> Plan | Decline:
        """The plain kernel's plan, or why the forward is no product this recipe covers."""
        try:
            form = form_of(problem)
        except UncoveredError as refusal:
            return Decline(str(refusal))
        if problem.on_gpu:
            return cuda.first_plan(problem, form)
        if form.second:
            return Decline("On the cpu the GEMM recipe covers one product.")
        if form.dtype in NARROW:
            return Decline(f"On the cpu the GEMM recipe covers float32 and float64; this is {form.dtype}.")
        return rows.first_plan(form) if form.rows_only else tiled.first_plan(form, problem.device)

    def moves(self, problem: Problem, plan: Plan) -> tuple[Move, ...]:
        """The moves not yet in `plan`, the most promising first."""
        form = form_of(problem)
        if problem.on_gpu:
            return cuda.moves(problem, form, plan)
        if form.rows_only:
            return rows.moves(form, problem.device, plan)
        return tiled.moves(form, problem.device, plan)

    def render(self, problem: Problem, plan: Plan) -> str:
        """The kernel's source. `plan` must come from this recipe for the same problem."""
        form = form_of(problem)
        if problem.on_gpu:
            return cuda.render(problem, form, plan)
        body = rows.body(form, plan) if form.rows_only else tiled_source.body(form, plan)
        return render_frame(problem, form, plan, body)
