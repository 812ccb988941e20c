"""A kernel of a file with one batch serves others: those that the judge tried, and all between."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from drop_ins import candidate, described, exported, loaded
from report_records import passed

from graph.export.serving import checkable
from harness.nouns.batches import Batches, ServedBatches
from harness.nouns.task import Task
from harness.trusted.facts.batches import find_batches
from knowledge.compiler.plan import Decline
from knowledge.compiler.problem import Problem
from knowledge.compiler.schedule.parts.resizing import SizesRecipe
from knowledge.compiler.search.first import first_draft

FILE = """import torch
from torch import nn
from torch.nn import functional


class Model(nn.Module):
    def __init__(self):
        super().__init__()
{made}

    def forward(self, {taken}):
{forward}


def get_inputs():
    return [{given}]


def get_init_inputs():
    return []
"""


def file(forward: str, given: str = "torch.randn(32, 40)", made: str = "pass", taken: str = "x") -> str:
    lines = {name: "\n".join(f"        {line}" for line in text.splitlines())
             for name, text in (("forward", forward), ("made", made))}  # fmt: skip
    return FILE.format(**lines, given=given, taken=taken)


NORM = file("return x + functional.gelu(self.norm(x))", made="self.norm = nn.LayerNorm(40)")
MLP = file(
    "return x + self.down(functional.silu(self.up(x)))",
    made="self.up, self.down = nn.Linear(40, 72), nn.Linear(72, 40)",
)
ATTENTION = file(
    """batch, steps, width = x.shape
q, k, v = self.qkv(x).view(batch, steps, 3, 4, 8).permute(2, 0, 3, 1, 4)
found = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
return x + self.out(found.transpose(1, 2).reshape(batch, steps, width))""",
    "torch.randn(32, 12, 32)",
    "self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)",
)
CONVOLUTION = file(
    "return functional.max_pool2d(self.norm(self.conv(x)).relu(), 2)",
    "torch.randn(32, 6, 12, 12)",
    "self.conv, self.norm = nn.Conv2d(6, 10, 3, padding=1), nn.BatchNorm2d(10)",
)
LABELS = file(
    "return functional.cross_entropy(x, y, reduction='none')",
    "torch.randn(32, 40), torch.randint(0, 40, (32,))",
    taken="x, y",
)
BATCH_SECOND = file("return x * y + y.mean()", "torch.randn(5, 6).t(), torch.randn(6, 5)", taken="x, y")


def found(source: str) -> Batches:
    return Batches.model_validate(find_batches(source, "a task"))


def widened(task: Task, batches: Batches) -> str | Decline:
    assert task.program is not None
    assert batches.traced is not None
    own, other = (
        Problem.model_validate(
            {"target": "cpu", "inputs": each.inputs, "parameters": each.parameters, "outputs": each.outputs,
             "ops": program.ops, "returns": program.outputs},
            from_attributes=True,
        )
        for each, program in ((task.signature, task.program), (batches.traced.signature, batches.traced.program))
    )  # fmt: skip
    draft = first_draft(own)
    return SizesRecipe.widened(own.model_copy(update={"others": (other,)}), draft.source)  # type: ignore[union-attr]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "source", [NORM, MLP, ATTENTION, CONVOLUTION, LABELS], ids=["norm", "mlp", "attention", "convolution", "labels"]
)
def test_other_batches_go_to_the_kernel(source: str, tmp_path: Path) -> None:
    task, batches = described(source), found(source)
    assert batches.own == 32
    assert {1, 16, 31, 33, 64} < {work.variant.batch for work in batches.workloads}
    kernel = widened(task, batches)
    assert isinstance(kernel, str)
    drop_in = loaded(exported(tmp_path, source, kernel, serving=batches.workloads))
    model = drop_in.ModelNew().eval()
    reference = drop_in.reference.Model().eval()
    reference.load_state_dict(model.state_dict())
    with torch.no_grad():
        for batch in (1, 7, 32, 33, 64):
            given = drop_in.reference.get_inputs() + drop_in.reference.get_inputs()
            count = len(given) // 2
            inputs = [torch.cat(given[k::count])[:batch] for k in range(count)]
            result, wanted = model(*inputs), reference(*inputs)
            torch.testing.assert_close(result, wanted, atol=1e-5, rtol=1e-4)
            assert result.stride() == wanted.stride()
        assert not drop_in.KERNEL.fallbacks
        with pytest.raises(ValueError, match="for 1 to 64"):
            model(*[torch.cat([each] * 3)[:65] for each in drop_in.reference.get_inputs()])


@pytest.mark.parametrize(
    ("forward", "why"),
    [
        ("return x.view(-1, 2, x.shape[1]).sum(1)", "PyTorch's forward itself takes no batch of 1"),
        ("return x.view(32, -1).sum(1)", "cannot tell that its forward is the same at all batches to 64"),
        ("return x * 2 if 4 < x.shape[0] < 9 else x.exp()", "cannot tell that its forward is the same"),
        ("return x @ x", "takes no batch of 1"),
        ("return x + torch.arange(32)[:, None]", "takes no batch of 16"),
    ],
)
def test_a_forward_that_changes_with_the_batch_claims_none(forward: str, why: str) -> None:
    batches = found(file(forward, "torch.randn(32, 32)"))
    assert batches.workloads == ()
    assert why in batches.refused
    assert "\n" not in batches.refused


def test_a_result_that_no_rule_follows_is_not_served() -> None:
    batches, verdict = found(NORM), passed(candidate("void run() {}"), 2.0)
    served = ServedBatches(own=32, workloads=batches.workloads)
    kept = checkable(described(NORM), verdict.model_copy(update={"served": served}))
    assert kept.served == served
    *others, last = batches.workloads
    (output,) = last.signature.outputs
    odd = output.model_copy(update={"shape": (output.shape[0] + 1, *output.shape[1:])})
    signature = last.signature.model_copy(update={"outputs": (odd,)})
    twisted = (*others, last.model_copy(update={"signature": signature}))
    told = checkable(described(NORM), verdict.model_copy(update={"served": ServedBatches(own=32, workloads=twisted)}))
    assert told.served is not None
    assert told.served.said.startswith("Serves batch 32 alone: its results' shapes")


def test_where_one_row_is_laid_out_otherwise_the_larger_batches_are_served() -> None:
    source = file("return x * 2, x[:, -1]", "torch.randn(3, 5, 7)")
    served = ServedBatches(own=3, workloads=found(source).workloads)
    assert served.tried[0] == 1
    verdict = passed(candidate("void run() {}"), 2.0).model_copy(update={"served": served})
    told = checkable(described(source), verdict).served
    assert told is not None
    assert told.tried == served.tried[1:]


def test_a_file_with_sizes_of_its_own_is_not_asked() -> None:
    source = NORM.replace("get_inputs()", "get_inputs(batch=32)").replace("randn(32", "randn(batch")
    assert "declares" in found(source + '\nWORKLOADS = [{"batch": 32}, {"batch": 64}]\n').refused


def test_rows_are_laid_out_as_the_file_lays_them_out() -> None:
    batches = found(BATCH_SECOND)
    assert batches.own == 6
    strides = {work.variant.batch: work.signature.inputs[0].strides for work in batches.workloads}  # type: ignore[union-attr]
    assert strides[12] == (1, 12)
    assert strides[7] == (1, 7)
