"""What is small beside others of its output is held to its own size, where PyTorch's is right by that."""

from __future__ import annotations

import pytest
import torch

from harness.checks.errors import Expected
from harness.checks.small_results import wrong_small_ones

X = torch.cat([torch.linspace(-60, 60, 4001), torch.tensor([-90.0, 2e-6, -3e-6])])


def found(function, kernel, dtype=torch.float32, spread=0.0):
    x = X.to(dtype)
    expected = Expected("y", function(x.double()), function(x))
    got = kernel(x)
    return wrong_small_ones(got, expected, lambda: torch.full(got.shape, spread, dtype=torch.float64))


WRONG = {
    "cut": (torch.sigmoid, lambda x: torch.where(x < -15, 0, torch.sigmoid(x))),
    "softplus": (torch.nn.functional.softplus, lambda x: torch.where(x > 20, x, torch.log(1 + torch.exp(x)))),
    "expm1": (torch.expm1, lambda x: torch.exp(x) - 1),
    "tanh": (torch.sigmoid, lambda x: 0.5 + 0.5 * torch.tanh(x / 2)),
    "erf": (torch.erfc, lambda x: 1 - torch.erf(x)),
}
RIGHT = {
    "exp2": (torch.sigmoid, lambda x: 1 / (1 + torch.exp2(x * -1.4426950408889634))),
    "silu": (torch.nn.functional.silu, lambda x: x / (1 + torch.exp(-x))),
    "gelu": (torch.nn.functional.gelu, lambda x: 0.5 * x * (1 + torch.erf(x * 0.7071067811865476))),
    "log1p": (torch.nn.functional.softplus, lambda x: torch.where(x > 20, x, torch.log1p(torch.exp(x)))),
    "as written": (lambda x: torch.log(1 + torch.exp(x)), lambda x: torch.log(1 + torch.exp(x)) * (1 + 1e-7)),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_vanishes_is_wrong(case):
    wrong, off = found(*WRONG[case])
    assert wrong.numel() and off > 1e-4


@pytest.mark.parametrize("case", RIGHT)
def test_another_formula_is_right(case):
    wrong, off = found(*RIGHT[case])
    assert (wrong.numel(), off) == (0, 0.0)


def test_below_the_smallest_normal_number_nothing_is_asked():
    wrong, _ = found(lambda x: torch.exp(x - 30), lambda x: torch.where(x < -57.4, 0.0, torch.exp(x - 30)))
    assert not wrong.numel()


def test_where_terms_cancel_rounding_counts():
    """Two thirds from its own middle: which elements come out exact is luck."""
    third = torch.tensor(20.0 / 3)
    case = (lambda x: x - third.to(x.dtype), lambda x: (x * 3 - 20) / 3)
    assert not found(*case, spread=1e-6)[0].numel()
    assert found(*case)[0].numel() == 0 or found(*case)[1] < 1e-2


def test_in_sixteen_bits_roundings_are_allowed():
    silu = torch.nn.functional.silu
    assert not found(silu, lambda x: (x.float() / (1 + torch.exp(-x.float()))).half(), torch.float16)[0].numel()
    assert found(torch.sigmoid, lambda x: torch.where(x < -8, 0, torch.sigmoid(x)), torch.float16)[0].numel()


def test_a_share_whose_exponent_was_rounded_to_bfloat16_is_right():
    x = (torch.randn(200, 60, generator=torch.Generator().manual_seed(1)) * 4).bfloat16()
    powers = (x - x.amax(-1, keepdim=True)).exp()
    expected = Expected("y", x.double().softmax(-1), x.softmax(-1))
    got = powers / powers.sum(-1, keepdim=True)
    assert not wrong_small_ones(got, expected, lambda: torch.zeros(got.shape, dtype=torch.float64))[0].numel()
