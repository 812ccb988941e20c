"""Operations without a lowering are traced as those that PyTorch writes them as; all others stay whole."""

from __future__ import annotations

import pytest

from harness.nouns.aten import LOWERED
from harness.trusted.facts.describing import describe

FILE = """
import torch
from torch import nn
from torch.nn import functional as F

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, {arguments}):
        {body}

def get_inputs():
    return [{inputs}]
"""


def described(body, arguments="x", inputs="torch.rand(6, 8) + 1"):
    return describe(FILE.format(body=body.replace("; ", "\n        "), arguments=arguments, inputs=inputs), "task")


def operations(task):
    assert task["program"], task["trace_failure"]
    return [op["target"].split(".")[1] for op in task["program"]["ops"]]


@pytest.mark.parametrize(
    "body",
    [
        "return torch.trapezoid(x)", "return F.softsign(F.local_response_norm(x[None], 2))",
        "return torch.ldexp(x, x.round())", "return torch.dist(x, x.exp())", "return torch.tensordot(x, x, 2)",
        "return torch.atleast_3d(x).diff(dim=0)", "y = x.clone(); y.addcmul_(x, x); return y.diff()",
        "self.count += 1; return x.hsplit(2)[0]",
    ],
)  # fmt: skip
def test_what_has_no_lowering_is_decomposed(body: str) -> None:
    assert LOWERED.keys() >= {name.removesuffix("_") for name in operations(described(body))}


@pytest.mark.parametrize("call", ["F.layer_norm(x, (8,))", "F.linear(x, x)", "x.softmax(1)", "x.multiply(2)"])
def test_what_has_one_stays_whole_beside_it(call: str) -> None:
    alone, beside = operations(described(f"return {call}")), operations(described(f"return {call} + x.trace()"))
    assert beside[: len(alone)] == alone
    assert "trace" not in beside


@pytest.mark.parametrize(
    ("body", "name"),
    [("return torch.fft.irfft(x)", "fft_irfft"), ("return torch.linalg.det(x @ x.T) * x.trace()", "linalg_det")],
)
def test_a_forward_is_traced_whole_where_a_part_has_no_lowering(body: str, name: str) -> None:
    assert name in operations(described(body))


def test_a_number_that_is_passed_in_stays_an_operand() -> None:
    task = described("return torch.addr(x, x[:, 0], x[0], alpha=k)", "x, k", "torch.rand(6, 8), 0.5")
    (taken,) = (op for op in task["program"]["ops"] if op["kwargs"])
    assert taken["kwargs"] == {"alpha": {"ref": "k"}}


@pytest.mark.parametrize("body", ["return x * 2 if x.sum() > 3 else x", "return x[:, : int(x.max().item())].sum(1)"])
def test_what_no_tracer_follows_is_named_by_its_line_and_module(body: str) -> None:
    task = described(body)
    assert task["program"] is None
    assert task["trace_failure"].endswith(f"; that is line 12 of Model: {body}")
