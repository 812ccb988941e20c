"""Complex numbers between the operations of a forward are pairs of reals, for every recipe and both targets."""

from __future__ import annotations

import pytest
import torch
from emulated import emulated
from gpu_kernels import H200
from ir_cases import Case
from test_ir_meaning import assert_means_the_same, oracle_of, outputs_of
from torch import Tensor
from traced import Compiler, assert_close, call, trace

from harness.nouns.task import TracedOp
from harness.trusted.facts.complexes import PairlessError, in_pairs
from knowledge.compiler.plan import Draft
from knowledge.compiler.search.first import first_draft


def _randn(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def complexes(x: Tensor, y: Tensor) -> Tensor:
    return torch.complex(x, y)


X, Y = _randn(3, 4), _randn(3, 4) + 0.3
CASES = {
    "rotary": Case(lambda x, angle: torch.view_as_real(
        torch.view_as_complex(x.unflatten(-1, (-1, 2))) * torch.polar(torch.ones_like(angle), angle)).flatten(-2),
        (_randn(2, 5, 8), _randn(5, 4))),
    "two queries": Case(lambda x, y, angle: torch.view_as_real(
        torch.view_as_complex(torch.stack((x, y))[..., None].expand(-1, -1, -1, 2).contiguous())
        * torch.polar(torch.ones_like(angle), angle).unsqueeze(0)), (X, Y, _randn(3, 4))),
    "quotient": Case(lambda x, y: torch.view_as_real(complexes(x, y) / (complexes(y, x) + 2)), (X, Y)),
    "length and angle": Case(lambda x, y: (complexes(x, y).abs(), complexes(x, y).angle()), (X, Y)),
    "product of matrices": Case(lambda x, y: torch.view_as_real(complexes(x, y) @ complexes(y, x).t().conj()), (X, Y)),
    "of a real": Case(lambda x, y: torch.view_as_real(complexes(x, y) * x + y - 1.5), (X, Y)),
    "numbers": Case(lambda x, y: torch.view_as_real(torch.exp(1j * x) * (y + 2j) * (0.5 - 1j)), (X, Y)),
    "of whole numbers": Case(lambda x, y: torch.view_as_real(x.to(torch.complex64) / complexes(y, x)), (X, Y)),
    "equation": Case(lambda x, y: torch.view_as_real(torch.einsum("ij,kj->ik", complexes(x, y), complexes(y, y))),
                     (X, Y)),
    "sums": Case(lambda x, y: torch.view_as_real((complexes(x, y) * 0.5 - 1 + y).sum(1)), (X, Y)),
    "exponential": Case(lambda x, y: torch.view_as_real(torch.exp(complexes(x, y)))[..., 1], (X, Y)),
    "moved": Case(lambda x, y: torch.cat((complexes(x, y), complexes(y, x)), 1)[:, 1::2].flip(1).imag, (X, Y)),
}  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", CASES)
def test_pairs_mean_what_complex_numbers_do(name: str) -> None:
    assert_means_the_same(name, CASES[name])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_a_kernel_of_pairs_computes_what_pytorch_does(compiler: Compiler, target: str) -> None:
    case = CASES["rotary"]
    machine = {"device": H200} if target == "cuda" else {}
    problem = trace(case.function, *case.inputs, **machine).model_copy(update={"target": target})  # type: ignore[arg-type]
    draft = first_draft(problem)
    assert isinstance(draft, Draft)
    kernel = compiler.build(emulated(draft.source) if target == "cuda" else draft.source)
    got = call(kernel, problem, case.inputs)
    for mine, theirs, oracle in zip(got, outputs_of(case.function(*case.inputs)), oracle_of(case), strict=True):
        assert_close(mine, theirs, oracle, target)


def test_without_complex_numbers_nothing_changes() -> None:
    ops = tuple(TracedOp.model_validate(op.model_dump()) for op in trace(lambda x: x.exp(), X).ops)
    assert in_pairs(ops, ()) is ops


@pytest.mark.parametrize(
    ("function", "named"),
    [
        (lambda x, y: complexes(x, y).tanh().real, "aten.tanh.default of complex numbers"),
        (lambda x, y: complexes(x, y).mul_(2).real, "aten.mul_.Tensor"),
        (lambda x, y: _written_after(x + y), "aten.mul_.Tensor on the memory of complex numbers"),
        (
            lambda x, y: torch.einsum("ij,kj,lj->ikl", complexes(x, y), complexes(y, x), complexes(x, x)).real,
            "aten.einsum.default of 3 operands",
        ),
    ],
)
def test_what_has_no_form_in_pairs_is_declined_by_name(function: object, named: str) -> None:
    with pytest.raises(PairlessError, match=named):
        trace(function, X, Y)  # type: ignore[arg-type]


def _written_after(x: Tensor) -> Tensor:
    """Complex numbers that a later write changes."""
    looked = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
    x.mul_(2)
    return torch.view_as_real(looked * looked)
