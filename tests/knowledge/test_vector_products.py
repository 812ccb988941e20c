"""Products with a vector or a diagonal matrix, and equations without sums: scalings and sums that mean the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from evaluation import evaluate
from gemm_cases import rand, trace_fx
from gpu_kernels import traced

from knowledge.compiler.ir.expressions import UnwritableError
from knowledge.compiler.plan import Decline, Plan
from knowledge.compiler.problem import Problem
from knowledge.compiler.schedule.pointwise.recipe import PointwiseRecipe
from knowledge.compiler.schedule.strided_reading import lower_problem

Case = tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b


VECTORS: dict[str, Case] = {
    "dot": (torch.dot, (rand(7), rand(7))),
    "mv": (torch.mv, (rand(5, 7), rand(7))),
    "mv of a transposed matrix": (lambda a, b: torch.mv(a.T, b), (rand(7, 5), rand(7))),
    "column": (torch.mm, (rand(5, 7), rand(7, 1))),
    "row": (torch.mm, (rand(1, 7), rand(7, 5))),
    "row and column": (torch.mm, (rand(1, 7), rand(7, 1))),
    "vector and matrix": (product, (rand(7), rand(7, 5))),
    "batch and vector": (product, (rand(2, 3, 7), rand(7))),
    "batch and column": (product, (rand(2, 3, 7), rand(7, 1))),
    "vector and a batch": (product, (rand(7), rand(2, 7, 3))),
    "equation": (lambda a, b: torch.einsum("bkn,k->nb", a, b), (rand(2, 7, 3), rand(7))),
    "vector added": (torch.addmv, (rand(5), rand(5, 7), rand(7))),
    "one row of a batch": (product, (rand(1, 1, 7), rand(7, 1))),
    "linear": (F.linear, (rand(5, 7), rand(1, 7))),
    "linear of a batch": (F.linear, (rand(2, 3, 7), rand(1, 7))),
    "linear and bias": (F.linear, (rand(5, 7), rand(1, 7), rand(1))),
    "linear, steps around it": (lambda x, w, b: torch.relu(F.linear(x * 2, w, b)), (rand(5, 7), rand(1, 7), rand(1))),
}  # fmt: skip
MATRICES: dict[str, Case] = {
    "matrices": (torch.mm, (rand(5, 7), rand(7, 2))),
    "batches": (product, (rand(2, 3, 7), rand(2, 7, 1))),
    "linear of two": (F.linear, (rand(5, 7), rand(2, 7))),
}


def assert_means(problem: Problem, case: Case) -> None:
    """The lowered problem, evaluated in torch, against the function itself."""
    function, inputs = case
    tensors = dict(zip((each.name for each in problem.inputs), inputs, strict=True))
    (got,) = evaluate(problem, lower_problem(problem), tensors)
    torch.testing.assert_close(got, function(*inputs), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", VECTORS)
def test_a_product_with_a_vector_is_its_sums(name: str) -> None:
    function, inputs = VECTORS[name]
    assert_means(traced(function, *inputs), VECTORS[name])


@pytest.mark.parametrize("name", MATRICES)
def test_other_products_are_left_to_their_recipe(name: str) -> None:
    function, inputs = MATRICES[name]
    with pytest.raises(UnwritableError):
        lower_problem(traced(function, *inputs))


DIAGONALS: dict[str, Case] = {
    "before": (lambda v, x: torch.diag(v) @ x, (rand(4), rand(4, 6))),
    "behind": (lambda v, x: x @ torch.diag(v), (rand(6), rand(4, 6))),
    "both sides": (lambda v, x: torch.diag(v) @ x @ torch.diag(v), (rand(4), rand(4, 4))),
    "of what is computed": (lambda v, x: torch.diag(v.exp()) @ x + 1, (rand(4), rand(4, 6))),
    "used twice": (lambda v, x: (lambda d: d @ x + x @ d)(torch.diag(v)), (rand(4), rand(4, 4))),
    "before a vector": (lambda v, x: torch.diag(v) @ x, (rand(4), rand(4))),
    "before a batch": (lambda v, x: torch.diag(v) @ x, (rand(4), rand(3, 4, 6))),
    "before a transposed matrix": (lambda v, x: torch.diag(v) @ x.T, (rand(4), rand(6, 4))),
    "of a batch": (lambda v, x: torch.diag_embed(v) @ x, (rand(2, 4), rand(2, 4, 6))),
    "transposed": (lambda v, x: torch.diag(v).T @ x, (rand(4), rand(4, 6))),
    "embedded": (lambda v, x: torch.diag_embed(v) @ x, (rand(4), rand(4, 6))),
}
KEPT: dict[str, Case] = {
    "two diagonals": (lambda v, x: torch.diag(v) @ torch.diag(x), (rand(4), rand(4))),
    "beside the main one": (lambda v, x: torch.diag(v, 1) @ x, (rand(4), rand(5, 6))),
    "of a matrix": (lambda v, x: torch.diag(v) @ x, (rand(6, 6), rand(6))),
    "added": (lambda v, x: torch.diag(v) + x, (rand(4), rand(4, 4))),
    "beside a second use": (lambda v, x: (lambda d: d @ x + d)(torch.diag(v)), (rand(4), rand(4, 4))),
    "a result itself": (lambda v, x: torch.diag(v), (rand(4), rand(4, 4))),
}


EQUATIONS: dict[str, Case] = {
    "outer": (lambda a, b: torch.einsum("i,j", a, b), (rand(4), rand(5))),
    "outer, turned": (lambda a, b: torch.einsum("bi,jb->jbi", a, b), (rand(3, 4), rand(5, 3))),
    "element by element": (lambda a, b: torch.einsum("ij,ji->ij", a, b) + 1, (rand(4, 5), rand(5, 4))),
    "scaled": (lambda a, b: torch.einsum("...i,...->...i", a, b), (rand(2, 3, 4), rand(3))),
    "of extent 1": (lambda a, b: torch.einsum("ij,ij->ji", a, b), (rand(4, 1), rand(4, 5))),
    "of three": (lambda a, b: torch.einsum("i,j,i->ij", a, b, a), (rand(4), rand(5))),
    "along a diagonal": (lambda a, b: torch.einsum("ii,ij->ij", a, b), (rand(4, 4), rand(4, 5))),
    "of one": (lambda a: torch.einsum("ij->ji", a), (rand(4, 5),)),
}


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize("name", EQUATIONS)
def test_an_equation_without_sums_is_a_multiplication(name: str, target: str) -> None:
    function, inputs = EQUATIONS[name]
    problem = traced(function, *inputs).model_copy(update={"target": target})
    assert "einsum" in problem.ops[0].target
    assert_means(problem, EQUATIONS[name])
    assert isinstance(PointwiseRecipe().first_plan(problem), Plan)


OUTER: dict[str, Case] = {
    "column and row": (product, (rand(5, 1), rand(1, 7))),
    "vectors": (lambda a, b: a[:, None] @ b[None, :], (rand(5), rand(7))),
    "in batches": (torch.bmm, (rand(2, 5, 1), rand(2, 1, 7))),
    "layer of one input": (lambda x, w, b: torch.relu(F.linear(x, w, b)), (rand(5, 1), rand(7, 1), rand(7))),
    "added": (lambda x, a, b: torch.addmm(x, a, b, alpha=2), (rand(5, 7), rand(5, 1), rand(1, 7))),
}


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize("name", OUTER)
def test_a_product_of_columns_and_rows_is_a_multiplication(name: str, target: str) -> None:
    function, inputs = OUTER[name]
    problem = traced(function, *inputs).model_copy(update={"target": target})
    assert_means(problem, OUTER[name])
    assert isinstance(PointwiseRecipe().first_plan(problem), Plan)


@pytest.mark.parametrize("equation", ["ij,jk->ik", "ij,ij->i"])
def test_an_equation_with_sums_is_left_to_the_other_recipes(equation: str) -> None:
    with pytest.raises(UnwritableError, match="einsum"):
        lower_problem(traced(lambda a, b: torch.einsum(equation, a, b), rand(4, 4), rand(4, 4)))


# make_fx takes these apart.
APART = ("embedded", "before a batch", "of a batch")
TRACED = [(name, way) for name in DIAGONALS for way in (traced, trace_fx) if way is traced or name not in APART]


@pytest.mark.parametrize(("name", "way"), TRACED)
def test_a_diagonal_factor_scales_rows_or_columns(name: str, way: Callable[..., Problem]) -> None:
    function, inputs = DIAGONALS[name]
    problem = trace_fx(function, inputs) if way is trace_fx else traced(function, *inputs)
    for target in ("cpu", "cuda"):
        problem = problem.model_copy(update={"target": target})
        assert isinstance(PointwiseRecipe().first_plan(problem), Plan)
        assert_means(problem, DIAGONALS[name])


@pytest.mark.parametrize("name", KEPT)
def test_another_diagonal_stays_a_matrix(name: str) -> None:
    function, inputs = KEPT[name]
    assert isinstance(PointwiseRecipe().first_plan(traced(function, *inputs)), Decline)
