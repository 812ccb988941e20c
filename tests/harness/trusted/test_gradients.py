"""A reference that is asked for gradients: what it takes and gives, what it refuses, what is traced and timed of it."""

from __future__ import annotations

import pytest
import torch

from harness.nouns.errors import UserError
from harness.nouns.task import Task, TensorSpec
from harness.trusted.facts.describing import describe
from harness.trusted.oracle import Oracle
from harness.trusted.reference import Reference

FILE = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 5)
        self.unused = nn.Parameter(torch.ones(3))
        self.frozen = nn.Parameter(torch.ones(5), requires_grad=False)
        self.register_buffer("mean", torch.full((5,), 0.25))

    def forward(self, x, labels):
        y = torch.relu(self.linear(x) * self.frozen - self.mean)
        return y, y.gather(1, labels)

def get_inputs():
    return [torch.randn(4, 6), torch.randint(0, 5, (4, 1))]

DIRECTION = "backward"
"""
PLAIN = """
import torch
from torch import nn
class Model(nn.Module):
    def forward(self, x{more}):
        {body}
def get_inputs():
    return [{inputs}]
DIRECTION = "{direction}"
"""


def plain(body: str, *, direction: str = "backward", inputs: str = "torch.randn(8, 8)", more: str = "") -> str:
    return PLAIN.format(body=body, direction=direction, inputs=inputs, more=more)


def by_hand(reference: Reference, values: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    """What autograd gives without us: both outputs' gradients flow back to whatever has one."""
    x, labels, *_, grad_y, grad_picked = values
    leaf, model = x.clone().requires_grad_(), reference.replica()
    y, picked = model(leaf, labels)
    torch.autograd.backward([y, picked], [grad_y, grad_picked])
    assert isinstance(model.linear, torch.nn.Linear)
    return {"x": leaf.grad, "weight": model.linear.weight.grad, "bias": model.linear.bias.grad}  # type: ignore[dict-item]


def test_gradients_of_what_has_one() -> None:
    """Neither integers nor buffers, frozen or unused parameters are among them."""
    reference = Reference(FILE, "t")
    values = reference.inputs(3)
    results = reference.run(values)
    names = [spec.name for spec in Task.model_validate(describe(FILE, "t")).signature.outputs]
    assert names == ["grad_x", "grad_linear.weight", "grad_linear.bias"]
    for got, want in zip(results, by_hand(reference, values).values(), strict=True):  # type: ignore[arg-type]
        torch.testing.assert_close(got, want)
        assert not got.requires_grad


def test_values_are_the_forwards_own_then_what_it_saved_then_gradients() -> None:
    reference = Reference(FILE, "t")
    values = reference.inputs(3)
    task = Task.model_validate(describe(FILE, "t"))
    assert [spec.name for spec in task.signature.inputs] == [
        "x", "labels", "output0", "output1", "grad_output0", "grad_output1",
    ]  # fmt: skip
    assert task.direction == "backward"
    saved = reference.saved(values, reference.model)
    for name, value in zip(saved, values[2:4], strict=True):
        torch.testing.assert_close(saved[name], value)
    other = reference.inputs(4)
    assert not torch.equal(values[4], other[4])  # type: ignore[arg-type]


def test_both_directions_in_one() -> None:
    reference = Reference(FILE.replace('"backward"', '"both"'), "t")
    backward = Reference(FILE, "t")
    own = backward.inputs(3)
    values = [*own[:2], *own[4:]]
    reference.inputs(0)
    results = reference.run(values)
    for got, want in zip(results, [*own[2:4], *backward.run(own)], strict=True):
        torch.testing.assert_close(got, want)


@pytest.mark.parametrize("direction", ["backward", "both"])
def test_what_is_timed_is_what_is_compared(direction: str) -> None:
    reference = Reference(FILE.replace("backward", direction), "t")
    values = reference.inputs(0)
    call = reference.prepared(reference.model, reference.model, values)
    with torch.no_grad():
        given = [each for each in call() if each is not None]  # type: ignore[attr-defined]
        again = [each for each in call() if each is not None]  # type: ignore[attr-defined]
    wanted = reference.run(values)[-3:]
    for one, other, want in zip(given, again, wanted, strict=True):
        torch.testing.assert_close(one, want)
        torch.testing.assert_close(other, want)  # the graph is kept, and nothing adds up


def test_a_backward_finds_its_forward_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock is around the gradients alone."""
    reference = Reference(FILE, "t")
    values = reference.inputs(0)
    call = reference.prepared(reference.model, reference.model, values)
    monkeypatch.setattr(type(reference.model), "forward", lambda *_: pytest.fail("the forward ran again"))
    call()


def test_the_oracle_differentiates_in_float64() -> None:
    reference = Reference(FILE, "t")
    values = reference.inputs(0)
    results = reference.run(values)
    oracle = Oracle(reference, "gemm")
    exact = oracle.run(values, reference.parameters(), results)
    assert oracle.absent == ""
    for wide, narrow in zip(exact, results, strict=True):
        assert wide.dtype == torch.float64
        assert 0 < float((wide - narrow).abs().max()) < 1e-5


def test_only_marked_inputs_have_gradients() -> None:
    inputs = "torch.randn(4, 4), torch.randn(4, 4, requires_grad=True)"
    source = plain("return x * w", inputs=inputs, more=", w")
    assert [spec.name for spec in Task.model_validate(describe(source, "t")).signature.outputs] == ["grad_w"]


def test_inputs_by_name_keep_theirs() -> None:
    source = plain("return x * w", more=", w").replace("[torch.randn(8, 8)]", "dict(w=torch.ones(3), x=torch.ones(3))")
    task = Task.model_validate(describe(source, "t"))
    assert [spec.name for spec in task.signature.inputs] == ["w", "x", "output", "grad_output"]
    assert [spec.name for spec in task.signature.outputs] == ["grad_w", "grad_x"]


def test_the_program_is_the_backwards_own() -> None:
    """What the forward saved is an operand; only what the gradients need is left, in operations of the plain kind."""
    task = Task.model_validate(describe(plain("return torch.softmax(x, 1)"), "t"))
    assert task.program is not None
    assert [op.target for op in task.program.ops] == [
        "aten.mul.Tensor", "aten.sum.dim_IntList", "aten.mul.Tensor", "aten.sub.Tensor",
    ]  # fmt: skip
    assert task.op_class == "reduction"
    assert task.program.reads == ("grad_output",)  # a kernel may compute the softmax anew, or take the saved one


def test_flops_are_the_backwards_own() -> None:
    source = plain("return x @ w", inputs="torch.randn(8, 16), torch.randn(16, 4)", more=", w")
    one = 2 * 8 * 16 * 4
    flops = {
        direction: Task.model_validate(describe(source.replace("backward", direction), "t")).workloads[0].flops
        for direction in ("forward", "backward", "both")
    }
    assert flops == {"forward": one, "backward": 2 * one, "both": 3 * one}


def test_a_norms_backward_reads_no_bias() -> None:
    source = FILE.replace("self.linear = nn.Linear(6, 5)", "self.norm = nn.LayerNorm(6)").replace(
        "y = torch.relu(self.linear(x) * self.frozen - self.mean)", "y = self.norm(x)"
    )
    program = Task.model_validate(describe(source, "t")).program
    assert program is not None
    assert {"x", "norm.weight"} <= set(program.reads)
    assert "norm.bias" not in program.reads


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (plain("return x.argmax(1)"), "none of its outputs can be differentiated"),
        (plain("return x.detach() * 2"), "none of its outputs can be differentiated"),
        (plain("return x * 2", inputs="torch.arange(4)"), "nothing in it has a gradient"),
        (plain("return x * 2", direction="sideways"), "its DIRECTION is 'sideways'"),
        (plain("y = x.exp(); y.sin().sum(); y.add_(1); return y"), "modified by an inplace operation"),
        (plain("return x.mul_(2)"), r"in an in-place operation\. It changes in place what its gradients"),
        (
            plain("return Twice.apply(x)")
            + "class Twice(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x): return x * 2\n"
            "    @staticmethod\n    def backward(ctx, grad): return grad.mul_(2)\n",
            "changes its input grad_output in place",
        ),
    ],
)
def test_what_cannot_be_differentiated_is_said(source: str, says: str) -> None:
    with pytest.raises(UserError, match=says) as caught:
        describe(source, "t")
    assert str(caught.value).startswith("t: ")


def test_what_a_forward_returns_beside_its_result_is_saved_for_the_backward() -> None:
    """A norm that also gives its statistics: the backward gets them, and no gradients of theirs."""
    body = "m = x.mean(1, keepdim=True); r = (x.var(1, keepdim=True) + 1).rsqrt(); "
    source = plain(f"{body}return (x - m) * r, m.detach(), r.detach()")
    task = Task.model_validate(describe(source, "t"))
    assert [spec.name for spec in task.signature.inputs] == ["x", "output0", "output1", "output2", "grad_output0"]
    assert [spec.shape for spec in task.signature.inputs if isinstance(spec, TensorSpec)][2:4] == [(8, 1), (8, 1)]
    assert [spec.name for spec in task.signature.outputs] == ["grad_x"]
