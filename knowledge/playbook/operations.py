"""All operations the pointwise and row recipes can write, and the lowering over them."""

from __future__ import annotations

from functools import lru_cache

from knowledge.compiler.ops_einsum import WITHOUT_SUMS
from knowledge.playbook.cuda_gemv import VECTOR_PRODUCTS
from knowledge.playbook.diagonals import without_diagonals
from knowledge.playbook.lowering import Lower, Lowered, lower
from knowledge.playbook.ops_activations import ACTIVATIONS
from knowledge.playbook.ops_losses import LOSSES
from knowledge.playbook.ops_pointwise import POINTWISE
from knowledge.playbook.ops_reductions import REDUCTIONS
from knowledge.playbook.ops_views import VIEWS
from knowledge.playbook.ops_windows import WINDOWS
from knowledge.playbook.problem import ByContent, Problem

TABLE: dict[str, Lower] = {**POINTWISE, **ACTIVATIONS, **VIEWS, **REDUCTIONS, **LOSSES, **WINDOWS, **WITHOUT_SUMS}


def lower_problem(problem: Problem) -> Lowered:
    """The problem's outputs as expressions. Raises `UnwritableError` naming the first operation without a lowering."""
    return _lowered(ByContent.of(problem))


@lru_cache(maxsize=8)
def _lowered(key: ByContent) -> Lowered:
    given = without_diagonals(key.problem)
    return lower(given, TABLE | VECTOR_PRODUCTS if given.target == "cuda" else TABLE)
