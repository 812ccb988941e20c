"""Which operators a task is about, by all their names."""

import pytest

from harness.nouns.task import Program, Signature, Task, TensorSpec, TracedOp, Workload
from harness.screen.operators import operators_of, plain


def task(forward, *traced, init="pass"):
    """With the targets of what was traced of it."""
    spec = TensorSpec(name="x", shape=(2,), strides=(1,), dtype="float32")
    work = Workload(name="w", signature=Signature(inputs=(spec,), outputs=(spec,)), flops=1, bytes_moved=1)
    source = (
        "import torch\nfrom torch import nn\nclass Model(nn.Module):\n"
        f"    def __init__(self):\n        {init}\n    def forward(self, x):\n        {forward}\n"
        "def get_inputs():\n    return [torch.randn(2).cumprod(0)]\n"
    )
    ops = tuple(TracedOp(target=target, results=(spec,)) for target in traced)
    program = Program(tracer="export", ops=ops, outputs=("x",)) if ops else None
    return Task(name="t", source=source, workloads=(work,), op_class="other", program=program)


NAMED = {
    "torch.softmax(x, 1)": ("softmax", "logsoftmax", "logsumexp", "gumbelsoftmax"),
    "x @ x": ("matmul", "mm", "einsum", "linear", "conv1d", "vecdot", "scaleddotproductattention"),
    "nn.functional.conv2d(x, x)": ("conv2d", "convtranspose2d", "matmul"),
    "x.mean(1)": ("mean", "sum", "nansum"),
    "x.norm()": ("norm", "vectornorm", "normalize"),
    "torch.clamp(x, 0)": ("clamp", "clip", "relu"),
    "x.max()": ("amax", "topk", "sort"),
    "torch.nn.functional.cross_entropy(x, x)": ("crossentropy", "crossentropyloss", "logsoftmax"),
    "torch.special.erfcx(x)": ("erfcx",),
}


@pytest.mark.parametrize("forward", NAMED)
def test_an_operator_goes_by_its_synonyms(forward):
    assert set(NAMED[forward]) <= operators_of(task(f"return {forward}"))


def test_what_moves_and_what_only_makes_inputs_is_not_its_own():
    found = operators_of(task("return x.view(2).transpose(0, 1).contiguous() + torch.zeros_like(x)"))
    assert found == frozenset()


def test_what_was_traced_counts_whatever_the_text_says():
    found = operators_of(task("return self.go(x)", "aten._softmax.default", "aten.view.default", "getitem"))
    assert {"softmax", "logsumexp", "go"} <= found
    assert not found & {"view", "getitem"}


def test_modules_that_are_made_count():
    assert "layernorm" in operators_of(task("return self.n(x)", init="self.n = nn.LayerNorm(2)"))


def test_one_operator_does_not_stand_for_another():
    found = operators_of(task("return torch.softmax(x, 1)"))
    assert not found & {"matmul", "sum", "relu", "gelu", "max"}


@pytest.mark.parametrize(
    ("name", "short"), [("log_softmax", "logsoftmax"), ("LogSoftmax", "logsoftmax"), ("_log_softmax_", "logsoftmax")]
)
def test_one_name_however_it_is_spelled(name, short):
    assert plain(name) == short
