"""Moves that pointwise and row kernels for the processor share: SIMD, cheaper exact math, streaming stores."""

from __future__ import annotations

from collections.abc import Iterable

from knowledge.compiler.emit.elements import WIDE
from knowledge.compiler.ir.dtypes import computed_in
from knowledge.compiler.ir.expressions import Node
from knowledge.compiler.ir.primitives import PRIMITIVES
from knowledge.compiler.plan import Move, Plan
from knowledge.compiler.problem import Problem


def lanes_for(nodes: Iterable[Node], simd_floats: int) -> int:
    """Elements a register: half as many where 8-byte types take part."""
    return simd_floats // 2 if any(node.dtype in WIDE for node in nodes) else simd_floats


def simd(plan: Plan, lanes: int, counted: str) -> Move | None:
    """`lanes` of what is counted a register; none where that is one."""
    if "lanes" in plan.knobs or lanes < 2:
        return None
    return Move("SIMD", f"one instruction computes {lanes} {counted}", plan.with_knobs(lanes=lanes), sure=True)


def exact(plan: Plan, lanes: int, nodes: Iterable[Node]) -> Move | None:
    """Brings SIMD along where the plan has none: registers alone gain nothing while libm takes one element a call."""
    slow = _slow_primitives(nodes)
    if "exact" in plan.knobs or lanes < 2 or not slow:
        return None
    why = f"branch-free polynomials for {', '.join(slow)} keep the registers full; libm takes one element a call"
    return Move("cheaper exact math", why, plan.with_knobs(lanes=lanes, exact=1), sure=True)


def _slow_primitives(nodes: Iterable[Node]) -> list[str]:
    """The libm functions among `nodes` that the playbook has a faster form of."""
    slow = {
        node.op
        for node in nodes
        if node.kind == "compute" and node.op in PRIMITIVES and PRIMITIVES[node.op].exact
        if computed_in(node.dtype) == "float32"
    }
    return sorted(slow)


def streaming(problem: Problem, plan: Plan, lanes: int, written: int) -> Move | None:
    """For `written` bytes, surely where no cache holds them. Brings SIMD along where the plan has none: only whole
    registers can be streamed.
    """
    if "streaming" in plan.knobs or lanes < 2 or written < problem.device.l3_bytes // 2:
        return None
    size = f"{written >> 20} MiB"
    why = f"the {size} written do not stay in the cache: stores that bypass it save reading the lines first"
    after = plan.with_knobs(lanes=lanes, streaming=1)
    return Move("streaming stores", why, after, sure=written > problem.device.l3_bytes)
