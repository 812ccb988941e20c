"""The float64 oracle by rows gives what the whole gives, and is left alone where it does not."""

from __future__ import annotations

import pytest
import torch

from harness.trusted.oracle import PIECE, Oracle
from harness.trusted.reference import Reference

FRAME = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.slope = torch.nn.Parameter(torch.full((1,), 0.25))

    def forward(self, {arguments}):
        return {result}

def get_inputs():
    return []
"""
ROWS = 3 * PIECE // 256 + 5


def oracle_and_results(result, *inputs, op_class="elementwise", arguments="x"):
    reference = Reference(FRAME.format(arguments=arguments, result=result), "task")
    oracle = Oracle(reference, op_class)
    results = reference.run(list(inputs))
    return reference, oracle, oracle.run(list(inputs), reference.parameters(), results)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows_give_what_the_whole_gives(dtype):
    x = torch.randn(ROWS, 256).to(dtype)
    _, oracle, (found,) = oracle_and_results("torch.nn.functional.gelu(x) / (1 + x.abs())", x)
    wide = x.double()
    assert oracle._kept[0] is found  # it was done by rows
    assert torch.allclose(found, torch.nn.functional.gelu(wide) / (1 + wide.abs()), rtol=1e-13)


def test_weights_of_each_call_count():
    x = torch.randn(ROWS, 256)
    _, oracle, (first,) = oracle_and_results("torch.where(x > 0, x, self.slope * x)", x)
    first = first.clone()
    (second,) = oracle.run([x], {"slope": torch.tensor([2.0])}, [first])
    wide = x.double()
    assert torch.equal(first, torch.where(wide > 0, wide, 0.25 * wide))
    assert torch.equal(second, torch.where(wide > 0, wide, 2 * wide))


def test_what_a_forward_makes_without_a_type_is_exact_too():
    x = torch.randn(4, 8)
    _, _, (found,) = oracle_and_results("x * torch.linspace(0, 1, 8)", x)
    assert torch.equal(found, x.double() * torch.linspace(0, 1, 8, dtype=torch.float64))


def test_a_result_that_vanishes_below_the_least_normal_number_is_the_same_function():
    x = torch.randn(40, 24) - 100
    _, oracle, (found,) = oracle_and_results("torch.sigmoid(x)", x)  # zero in float32: its exponential overflows
    assert oracle.absent == ""
    assert torch.equal(found, torch.sigmoid(x.double()))


def test_several_inputs_outputs_and_numbers():
    x, y = torch.randn(ROWS, 256), torch.randn(ROWS, 256)
    _, oracle, found = oracle_and_results("(x * y + 3, x - y)", x, y, arguments="x, y")
    assert len(oracle._kept) == 2
    assert torch.equal(found[0], x.double() * y.double() + 3)
    assert torch.equal(found[1], x.double() - y.double())


@pytest.mark.parametrize(
    ("result", "shapes"),
    [
        ("x / x.shape[0]", [(ROWS, 256)]),  # its value depends on the number of rows
        (f"x.reshape({ROWS}, 256) + 1", [(ROWS, 256)]),  # it cannot do with fewer
        ("x.T + 1", [(2 * 256, 2 * 256 + 1)]),
        ("x + y", [(ROWS, 256), (256,)]),
        ("x + 1", [(4, 8)]),  # there is nothing to gain
    ],
)
def test_what_needs_the_whole_is_computed_as_a_whole(result, shapes):
    inputs = [torch.rand(shape) + 1 for shape in shapes]
    arguments = "x, y" if len(shapes) == 2 else "x"
    reference, oracle, (found,) = oracle_and_results(result, *inputs, arguments=arguments)
    (whole,) = reference.run([value.double() for value in inputs], reference.double())
    assert oracle._kept == []
    assert torch.equal(found, whole)


def test_other_classes_are_computed_as_a_whole():
    x = torch.randn(ROWS, 256)
    _, oracle, (found,) = oracle_and_results("x - x.mean()", x, op_class="reduction")
    assert oracle._kept == []
    assert torch.equal(found, x.double() - x.double().mean())


def test_what_is_kept_can_be_given_back():
    x = torch.randn(ROWS, 256)
    _, oracle, _ = oracle_and_results("x + 1", x)
    oracle.forget()
    assert oracle._kept == []


NORM = "(x.float() * torch.rsqrt(x.to(torch.float32).pow(2).mean(-1, keepdim=True, dtype=torch.float32))).to(x.dtype)"


@pytest.mark.parametrize("result", [NORM, "x.to(dtype=torch.float32).sum(-1)", "x.to('cpu', torch.float32).cumsum(-1)"])
@pytest.mark.parametrize("op_class", ["elementwise", "reduction"])
def test_a_cast_to_float32_within_the_forward_does_not_round_the_oracle(result, op_class):
    x = torch.randn(ROWS, 256)
    _, _, (found,) = oracle_and_results(result, x, op_class=op_class)
    wide = x.double()
    exact = {
        NORM: wide * wide.square().mean(-1, keepdim=True).rsqrt(),
        "x.to(dtype=torch.float32).sum(-1)": wide.sum(-1),
    }.get(result, wide.cumsum(-1))
    assert torch.allclose(found, exact, rtol=1e-12, atol=1e-12)
    assert found.dtype == torch.float64


def test_who_rounds_to_a_narrower_type_means_it():
    x = torch.randn(8, 16)
    _, _, (found,) = oracle_and_results("x.half().float() + x.bfloat16()", x)
    assert torch.equal(found, x.double().half().double() + x.double().bfloat16())
