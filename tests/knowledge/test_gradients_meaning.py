"""What the front makes of backward passes, traced as the judge does, is what autograd gives: nothing is compiled."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import pytest
import torch
from gpu_kernels import H200
from ir_evaluation import meaning

from harness.nouns.form import Form
from harness.trusted.facts.specs import input_names, parameter_specs, tensor_spec, value_spec
from harness.trusted.facts.tracing import trace
from harness.trusted.reference import Reference, output_names
from knowledge.compiler.ir.nodes import Element
from knowledge.compiler.ir.verify import verify
from knowledge.compiler.passes.staging import staged
from knowledge.compiler.plan import Draft, Plan
from knowledge.compiler.problem import Problem
from knowledge.compiler.schedule.loops.recipe import compiled
from knowledge.compiler.search.first import first_draft

FILE = """
import torch
from torch import nn
from torch.nn import functional as F

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = {part}

    def forward(self, {names}):
        return {body}

def get_inputs():
    return [{inputs}]

DIRECTION = "backward"
"""
IMAGE, ROWS, LABELS = "torch.randn(2, 4, 9, 8)", "torch.randn(6, 7)", "torch.randint(0, 7, (6,))"
TIES = "torch.randint(0, 3, (2, 4, 9, 8)).float()"


class Pass(NamedTuple):
    """A forward over x, y and z, its module, and the inputs in Python."""

    body: str
    inputs: tuple[str, ...]
    part: str = "nn.Identity()"


CASES = {
    "max pool": Pass("F.max_pool2d(x, 2)", (IMAGE,)),
    "max pool ties": Pass("F.max_pool2d(x, 3, stride=2, padding=1, ceil_mode=True)", (TIES,)),
    "max pool dilated": Pass("F.max_pool2d(x, (2, 3), stride=(3, 1), padding=1, dilation=(2, 1))", (TIES,)),
    "max pool large": Pass("F.max_pool2d(x, 6, stride=3)", (IMAGE,)),
    "max pool 1d": Pass("F.max_pool1d(x, 3, stride=2)", ("torch.randn(2, 4, 9)",)),
    "max pool 3d": Pass("F.max_pool3d(x, 2)", ("torch.randn(1, 2, 5, 4, 6)",)),
    "avg pool": Pass("F.avg_pool2d(x, 2)", (IMAGE,)),
    "avg pool padded": Pass("F.avg_pool2d(x, 3, stride=2, padding=1, ceil_mode=True)", (IMAGE,)),
    "avg pool inside": Pass("F.avg_pool2d(x, 3, stride=2, padding=1, count_include_pad=False)", (IMAGE,)),
    "avg pool divided": Pass("F.avg_pool2d(x, (3, 2), divisor_override=5)", (IMAGE,)),
    "avg pool 3d": Pass("F.avg_pool3d(x, 2, stride=1)", ("torch.randn(1, 2, 5, 4, 6)",)),
    "adaptive avg": Pass("F.adaptive_avg_pool2d(x, (5, 3))", (IMAGE,)),
    "adaptive avg larger": Pass("F.adaptive_avg_pool2d(x, (11, 4))", (IMAGE,)),
    "conv": Pass("self.part(x)", (IMAGE,), "nn.Conv2d(4, 5, 3, padding=1)"),
    "conv strided": Pass("self.part(x)", (IMAGE,), "nn.Conv2d(4, 5, (3, 2), stride=(2, 3), padding=1, bias=False)"),
    "conv grouped": Pass("self.part(x)", (IMAGE,), "nn.Conv2d(4, 6, 3, groups=2, dilation=2, padding=2, stride=2)"),
    "conv depthwise": Pass("self.part(x)", (IMAGE,), "nn.Conv2d(4, 8, 3, groups=4)"),
    "conv 1d": Pass("self.part(x)", ("torch.randn(3, 4, 11)",), "nn.Conv1d(4, 5, 3, stride=2)"),
    "conv 3d": Pass("self.part(x)", ("torch.randn(1, 2, 5, 4, 6)",), "nn.Conv3d(2, 3, 2)"),
    "conv transposed": Pass("self.part(x)", (IMAGE,), "nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, groups=2)"),
    "conv relu pool": Pass("F.max_pool2d(F.relu(self.part(x)), 2)", (IMAGE,), "nn.Conv2d(4, 5, 3)"),
    "linear relu": Pass("F.relu(self.part(x))", (ROWS,), "nn.Linear(7, 5)"),
    "cross entropy": Pass("F.cross_entropy(x, y)", (ROWS, LABELS)),
    "cross entropy ignored": Pass("F.cross_entropy(x, y, weight=self.part, ignore_index=2)", (ROWS, LABELS),
                                  "nn.Parameter(torch.rand(7), requires_grad=False)"),
    "cross entropy each": Pass("F.cross_entropy(x, y, reduction='none')", (ROWS, LABELS)),
    "cross entropy of images": Pass(
        "F.cross_entropy(x, y, reduction='sum')", ("torch.randn(2, 5, 3, 4)", "torch.randint(0, 5, (2, 3, 4))")
    ),
    "layer norm": Pass("self.part(x)", (ROWS,), "nn.LayerNorm(7)"),
    "rms norm": Pass("self.part(x)", (ROWS,), "nn.RMSNorm(7, eps=1e-6)"),
    "group norm": Pass("self.part(x)", (IMAGE,), "nn.GroupNorm(2, 4)"),
    "batch norm": Pass("self.part(x)", (IMAGE,), "nn.BatchNorm2d(4)"),
    "embedding": Pass("self.part(x)", ("torch.randint(0, 6, (4, 5))",), "nn.Embedding(6, 3, padding_idx=1)"),
    "rows picked": Pass("x.index_select(0, y) * 2", (ROWS, "torch.randint(0, 6, (9,))")),
    "columns picked": Pass("x[:, y]", (ROWS, LABELS)),
    "gathered": Pass("x.gather(1, y)", (ROWS, "torch.randint(0, 7, (4, 5))")),
    "largest": Pass("x.max(1)[0]", (ROWS,)),
    "sliced": Pass("x[1:, ::3].exp() + x[2, :3]", (ROWS,)),
    "nearest": Pass("F.interpolate(x, size=(13, 8))", (IMAGE,)),
    "attention": Pass("F.scaled_dot_product_attention(x, y, z)", ("torch.randn(2, 3, 5, 4)",) * 3),
    "attention causal": Pass(
        "F.scaled_dot_product_attention(x, y, z, is_causal=True)", ("torch.randn(2, 3, 5, 4)",) * 3
    ),
}  # fmt: skip


def posed(case: Pass) -> tuple[Reference, Problem]:
    """A case as the judge has it, and as the playbook is asked for it."""
    names, inputs = ", ".join("xyz"[: len(case.inputs)]), ", ".join(case.inputs)
    reference = Reference(FILE.format(part=case.part, names=names, body=case.body, inputs=inputs), "case")
    values = reference.inputs(seed=3)
    results = reference.run(values)
    takes, returns = Form.model_validate(reference.takes), Form.model_validate(reference.returns)
    labels = input_names(reference, takes.paths)
    given = [value_spec(reference, name, value, ()) for name, value in zip(labels, values, strict=True)]
    outputs = tuple(map(partial(tensor_spec, reference), output_names(returns.paths), results))
    program = trace(reference, values, given)
    problem = {"target": "cpu", "inputs": given, "parameters": parameter_specs(reference), "outputs": outputs}
    return reference, Problem.model_validate(
        {**problem, "ops": program.ops, "returns": program.outputs}, from_attributes=True
    )


def assert_means(reference: Reference, problem: Problem) -> None:
    """What the front makes of it gives autograd's gradients."""
    lowered = staged(problem)
    verify(node for _, node in lowered.outputs)
    values = reference.inputs(seed=3)
    given = dict(zip((each.name for each in problem.inputs), values, strict=True)) | reference.parameters()
    for got, wanted in zip(meaning(problem, lowered, given), reference.run(values), strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", CASES)
def test_what_is_traced_means_what_autograd_gives(name: str) -> None:
    assert_means(*posed(CASES[name]))


def test_a_weight_is_not_transposed_there_and_back() -> None:
    targets = [op.target.split(".")[1] for op in posed(CASES["linear relu"])[1].ops]
    assert targets.count("t") == 1 and targets.count("mm") == 2  # the rows' gradient alone lies the other way round


@pytest.mark.parametrize("name", ["cross entropy", "cross entropy ignored", "cross entropy of images"])
def test_a_rows_one_class_is_not_summed_over_all(name: str) -> None:
    nests = compiled(posed(CASES[name])[1]).nests
    assert sum(any(total.op == "sum" for total in nest.totals) for nest in nests) == 2 - name.endswith("images")


def test_the_gradient_of_few_weights_comes_in_shares_of_the_images() -> None:
    convolution = Pass("self.part(x)", ("torch.randn(32, 4, 12, 12)",), "nn.Conv2d(4, 6, 3, bias=False)")
    reference, problem = posed(convolution)
    on_gpu = problem.model_copy(update={"target": "cuda", "device": H200})
    shares, joined = compiled(on_gpu).nests[-2:]
    assert [axis.extent for axis in (*shares.axes, *shares.reduced)] == [4, 6, 4, 3, 3, 8, 10, 10]
    assert [axis.extent for axis in joined.reduced] == [4]
    assert not any(isinstance(total.body, Element) for total in shares.totals)  # products, for tensor cores
    assert_means(reference, on_gpu)


def test_columns_are_summed_in_parts_where_they_are_few() -> None:
    reference, problem = posed(Pass("self.part(x)", ("torch.randn(1024, 64)",), "nn.RMSNorm(64, eps=1e-6)"))
    on_gpu = problem.model_copy(update={"target": "cuda", "device": H200})
    assert [axis.extent for axis in compiled(on_gpu).nests[-2].axes] == [4, 64]
    assert_means(reference, on_gpu)


def test_large_rows_that_would_lie_in_memory_between_parts_are_loops() -> None:
    for features, recipe in ((7, "stages"), (4096, "loops")):
        norm = Pass("self.part(x)", (f"torch.randn(1024, {features})",), f"nn.RMSNorm({features}, eps=1e-6)")
        problem = posed(norm)[1].model_copy(update={"target": "cuda", "device": H200})
        draft = first_draft(problem)
        assert isinstance(draft, Draft)
        plan = Plan.read(draft.source)
        assert plan is not None and plan.recipe == recipe
    columns = [nest for nest in compiled(problem).nests if len(nest.axes) == 2 and nest.totals]
    assert [axis.extent for nest in columns for axis in (*nest.axes, *nest.reduced)] == [4, 4096, 256]
