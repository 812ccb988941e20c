"""Functions that check values, masks that a forward spells out, and writes to parts of tensors: traced, and meant."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from drop_ins import described
from ir_evaluation import meaning

from harness.nouns.task import Task
from knowledge.compiler.lower.front import traced
from knowledge.compiler.problem import Problem
from knowledge.compiler.search.first import first_draft

FILE = """import torch
from torch import nn
from torch.nn import functional as F


class Model(nn.Module):
    def forward(self, {taken}):
        {body}


def get_inputs():
    return [{given}]
"""
CHECKED = {
    "return F.gaussian_nll_loss(x, y, v)": "x, y, v: *torch.randn(2, 7, 6), torch.rand(7, 6)",
    "return F.gaussian_nll_loss(x, y, v, True, 0.3, 'none')": "x, y, v: *torch.randn(2, 7, 6), torch.rand(7)",
    "return nn.GaussianNLLLoss(reduction='sum')(x, y, v)": "x, y, v: *torch.randn(2, 7, 6), torch.rand(7, 1)",
    "return torch.cov(x)": "x: torch.randn(4, 9)",
    "return x.cov(correction=0)": "x: torch.randn(9)",
    "return torch.cov(x, fweights=w)": "x, w: torch.randn(4, 9), torch.randint(1, 4, (9,))",
    "return torch.cov(x, aweights=w, correction=2)": "x, w: torch.randn(4, 9), torch.rand(9)",
    "return torch.cov(x, fweights=w, aweights=v)": "x, w, v: torch.randn(4, 9), torch.arange(1, 10), torch.rand(9)",
    "return torch.corrcoef(x)": "x: torch.randn(4, 9)",
    "return x.corrcoef()": "x: torch.randn(9)",
    "return torch.combinations(x)": "x: torch.randn(23)",
    "return torch.combinations(x, 2, True)": "x: torch.randn(5)",
    "return torch.combinations(x, 3)": "x: torch.randn(5)",
    "return torch.histc(x, 7, -1, 1.5)": "x: torch.randn(40, 9)",
    "return x.histc(13)": "x: torch.randn(9)",
    "return torch.histc(x * 0, 5)": "x: torch.randn(9)",
}
_ROWS, _PARTS = "torch.randn(9, 4)", "torch.tensor([0, 4, 2, 3])"
CHECKED |= {
    f"return torch.segment_reduce(x, {how}, lengths=n)": f"x, n: {_ROWS}, {_PARTS}"
    for how in ("'sum'", "'max'", "'min', initial=-0.2", "'prod', initial=2", "'mean', initial=3", "'max', initial=0.2")
}
CHECKED |= {
    "return torch.segment_reduce(x, 'sum', offsets=n)": "x, n: torch.randn(9), torch.tensor([0, 2, 2, 9])",
    "return torch.segment_reduce(x, 'mean', lengths=n, axis=1)": "x, n: torch.randn(2, 5, 3), "
    "torch.tensor([[2, 3], [4, 1]])",
}
_LOGS, _LABELS = "torch.randn({steps}, 3, 6).log_softmax(-1)", "torch.randint(1, 6, (3, 4))"
_LENGTHS = "torch.randint(6, {steps}, (3,)), torch.randint(0, 5, (3,))"
_CTC = {
    "return F.ctc_loss(x, y, a, b)": f"x, y, a, b: {_LOGS}, {_LABELS}, {_LENGTHS}",
    "return F.ctc_loss(x, y, a, b, 2, 'none')": f"x, y, a, b: {_LOGS}, {_LABELS} % 2, {_LENGTHS}",
    "return torch.ctc_loss(x, y, a, b, 0, 2, True)": f"x, y, a, b: {_LOGS}, {_LABELS}.int(), "
    "torch.randint(0, 7, (3,)), torch.randint(0, 5, (3,))",
    "return nn.CTCLoss(zero_infinity=True)(x, y, a, b)": f"x, y, a, b: {_LOGS}, torch.randint(1, 6, (9,)), "
    "torch.randint(3, {steps}, (3,)), torch.tensor([4, 0, 5])",
    "return F.ctc_loss(x, y, (9, 6, 8), (4, 3, 2), reduction='none')": f"x, y: {_LOGS}, torch.randint(1, 6, (9,))",
    "return F.ctc_loss(x[:, 0], y, a, b)": f"x, y, a, b: {_LOGS}, torch.randint(1, 6, (4,)), torch.tensor(9), "
    "torch.tensor(4)",
}
STEPS = 20
"""Of ctc_loss: enough to become a loop."""
CHECKED |= {body: of.replace("{steps}", str(STEPS)) for body, of in _CTC.items()}
SPELLED = {
    "return torch.tensor_split(x, torch.tensor([1, 4]))": "x: torch.randn(7, 6)",
    "return x.tensor_split(torch.tensor((2, 3)), dim=1)": "x: torch.randn(7, 6)",
    "return x[torch.tensor([True, False, True, True, False])]": "x: torch.randn(5, 6)",
    "return x[1:, torch.tensor([False, True, True]), None]": "x: torch.randn(5, 3)",
}
SPELLED["return torch.bitwise_and(5, i) + (i & 6)"] = "i: torch.randint(0, 99, (4, 6))"
SPELLED["t = torch.tensor([1, 4]); t = t + 1; return x[t]"] = "x: torch.randn(7, 6)"
SPELLED |= {f"return {each}": "x: torch.randn(5, 6)" for each in ("x[[1, 2]]", "x[:, [0, 5, -1]]", "x[[3], ..., 2:4]")}
PARTS = {
    "y = x.clone(); y[:, 1] = 0; return y": "x: torch.randn(5, 6)",
    "y = torch.zeros(5, 12); y[:, ::2] = x; y[:, 1::2] = -x; return y": "x: torch.randn(5, 6)",
    "y = x * 2; y[0].mul_(3); return y.sum(1)": "x: torch.randn(5, 6)",
    "y = x * 2; z = y.view(-1); z.relu_(); return y + 1": "x: torch.randn(5, 6)",
    "y = x * 2; z = y[1]; y.add_(1); return z": "x: torch.randn(5, 6)",
    "y = x.clone(); y.diagonal().fill_(0.); return y": "x: torch.randn(5, 5)",
    "y = x.clone(); y.t()[0] = 0.5; y[y > 1] = 2.; return y": "x: torch.randn(5, 5)",
    "y = x.clone(); y[:, 1:][i] = 0.5; return y": "x, i: torch.randn(5, 5), torch.randint(0, 5, (3,))",
    "y = F.layer_norm(x, (5,)); y[:, 0] += 2; return F.linear(y, x)": "x: torch.randn(5, 5)",
}


def task_of(body: str, of: str) -> Task:
    taken, _, given = of.partition(": ")
    return described(FILE.format(taken=taken, body="\n        ".join(body.split("; ")), given=given))


def posed(task: Task) -> Problem:
    assert task.program is not None, task.trace_failure
    signature = task.signature
    return Problem.model_validate(
        {"target": "cpu", "inputs": signature.inputs, "parameters": signature.parameters,
         "outputs": signature.outputs, "ops": task.program.ops, "returns": task.program.outputs},
        from_attributes=True,
    )  # fmt: skip


def run(task: Task, seed: int) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The inputs of a draw, and what PyTorch makes of them."""
    module: dict[str, Any] = {}
    exec(task.source, module)
    torch.manual_seed(seed)
    inputs = module["get_inputs"]()
    made = module["Model"]()(*[each.clone() for each in inputs])
    return inputs, [made] if isinstance(made, torch.Tensor) else list(made)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("body", "of"), [*CHECKED.items(), *SPELLED.items(), *PARTS.items()])
def test_what_is_traced_is_what_pytorch_computes(body: str, of: str) -> None:
    task = task_of(body, of)
    problem = posed(task)
    assert first_draft(problem).source  # type: ignore[union-attr]
    for seed in (3, 4):
        inputs, wanted = run(task, seed)
        named = dict(zip((each.name for each in problem.inputs), inputs, strict=True))
        for found, eager in zip(meaning(problem, traced(problem), named), wanted, strict=True):
            torch.testing.assert_close(found, eager, atol=1e-5, rtol=1e-4)


@pytest.mark.slow
def test_ctc_loss_takes_no_more_source_for_more_steps() -> None:
    body = "return F.ctc_loss(x, y, a, b)"
    few, many = (first_draft(posed(task_of(body, _CTC[body].replace("{steps}", str(count))))) for count in (20, 60))
    assert len(many.source) < len(few.source) + 2000  # type: ignore[union-attr]


DECLINED = {
    "y = x.clone(); y[m] = y[m].relu() * 2; return y": (
        "x, m: torch.randn(5, 6), torch.rand(5, 6) > 0.5", "cannot write aten.index.Tensor by a mask, which has"),
    "return torch.ops.aten._weight_int4pack_mm_for_cpu(x, w, 32, s)": (
        "x, w, s: torch.randn(4, 64), torch.randint(0, 255, (32, 32), dtype=torch.uint8), torch.rand(2, 32, 2)",
        "cannot write aten._weight_int4pack_mm_for_cpu.default: PyTorch documents no layout"),
    "for _ in range(20): x = x * 0.5 if float(x.sum()) > 0 else x + 1; return x": (
        "x: torch.randn(5, 6)", "a branch or a loop on them, or a number taken with .item(); that is line 8 of Model"),
}  # fmt: skip


@pytest.mark.parametrize("body", DECLINED)
def test_what_is_declined_is_named_in_a_sentence(body: str) -> None:
    """A result whose size is in the values, packed weights whose layout is not documented, steps that values choose."""
    of, said = DECLINED[body]
    task = task_of(body, of)
    assert said in (task.trace_failure or first_draft(posed(task)).reason)  # type: ignore[union-attr]
