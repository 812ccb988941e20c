"""A kernel of several workloads serves the sizes between those that it was judged at, and no others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from drop_ins import described, exported, loaded

from graph.export.serving import Extent, served
from harness.nouns.task import Task, Workload
from knowledge.compiler.problem import Problem
from knowledge.compiler.search.first import first_draft

BATCHES = """import torch


class Model(torch.nn.Module):
    def __init__(self, eps):
        super().__init__()
        self.norm = torch.nn.LayerNorm(6, eps)
        self.linear = torch.nn.Linear(6, 5)

    def forward(self, x, y):
        z = self.linear(self.norm(x)).relu() + y[:, None]
        return z, torch.cat((z, z * 2), 0).transpose(0, 1)


def get_inputs(batch=32):
    return [torch.randn(batch, 3, 6), torch.randn(batch, 5)]


def get_init_inputs(eps=1e-5):
    return [eps]


WORKLOADS = [{"batch": 32}, {"batch": 1}, {"batch": 64}]
"""


def written(task: Task) -> str:
    """The playbook's first kernel for all workloads."""
    assert task.program is not None
    programs = (task.program, *task.other_programs)
    first, *others = (
        Problem.model_validate(
            {"target": "cpu", "inputs": each.signature.inputs, "parameters": each.signature.parameters,
             "outputs": each.signature.outputs, "ops": program.ops, "returns": program.outputs},
            from_attributes=True,
        )
        for each, program in zip(task.workloads, programs, strict=True)
    )  # fmt: skip
    draft = first_draft(first.model_copy(update={"others": tuple(others)}))
    source: str = draft.source  # type: ignore[union-attr]
    return source


@pytest.fixture(scope="module")
def drop_in(tmp_path_factory: pytest.TempPathFactory) -> Any:
    task = described(BATCHES)
    return loaded(exported(tmp_path_factory.mktemp("batches"), BATCHES, written(task)))


def given(batch: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(batch, 3, 6), torch.randn(batch, 5)


@pytest.mark.parametrize("batch", [1, 2, 7, 31, 32, 33, 50, 63, 64, 99])
def test_every_batch_goes_to_the_kernel(drop_in: Any, batch: int) -> None:
    model = drop_in.ModelNew(1e-5).eval()
    reference = drop_in.reference.Model(1e-5).eval()
    reference.load_state_dict(model.state_dict())
    x, y = given(batch)
    with torch.no_grad():
        for _ in range(2):  # the second goes straight
            for found, wanted in zip(model(x, y), reference(x, y), strict=True):
                torch.testing.assert_close(found, wanted)
                assert found.stride() == wanted.stride()
    assert not drop_in.KERNEL.fallbacks


def test_gradients_at_another_batch_are_the_reference_s(drop_in: Any) -> None:
    model = drop_in.ModelNew(1e-5).eval()
    x, y = given(9)
    (found,) = torch.autograd.grad(model(x.requires_grad_(), y)[0].square().sum(), x)
    reference = drop_in.reference.Model(1e-5).eval()
    reference.load_state_dict(model.state_dict())
    (wanted,) = torch.autograd.grad(reference(x, y)[0].square().sum(), x)
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize(
    ("x", "y", "said"),
    [
        (torch.zeros(10000, 3, 6), torch.zeros(10000, 5), r"x has 10000 elements along axis 0; .* for 1 to \d+"),
        (torch.zeros(9, 3, 6), torch.zeros(1, 5), r"y has shape \(1, 5\); the kernel was made for \(9, 5\)"),
        (torch.zeros(9, 4, 6), torch.zeros(9, 5), r"x has shape \(9, 4, 6\); the kernel was made for \(9, 3, 6\)"),
    ],
)
def test_other_sizes_do_not(drop_in: Any, x: torch.Tensor, y: torch.Tensor, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        drop_in.ModelNew(1e-5).eval()(x, y)


def test_the_rule_has_one_size_and_what_follows_from_it() -> None:
    found = served(described(BATCHES))
    assert found is not None
    (size,) = found.sizes
    assert (size.name, size.axis, size.low) == ("x", 0, 1)
    assert size.high > 64
    assert found.arguments[1].shape == (Extent(1, (0,)), 5)
    assert found.outputs[1].shape == (3, Extent(2, (0,)), 5)
    assert [*found.arguments] == [0, 1, 2, 3, 4, 5]


def _held(task: Task, held: tuple[Workload, ...]) -> Task:
    return task.model_copy(update={"held_out": held})


def test_nothing_is_served_that_the_judge_did_not_try(tmp_path: Path) -> None:
    task = described(BATCHES)
    assert served(_held(task, ())) is None
    first = task.held_out[0]
    (output, other) = first.signature.outputs
    odd = output.model_copy(update={"shape": (output.shape[0] + 1, *output.shape[1:])})
    signature = first.signature.model_copy(update={"outputs": (odd, other)})
    assert served(_held(task, (first.model_copy(update={"signature": signature}),))) is None


def test_a_model_that_is_constructed_anew_for_each_size_serves_the_declared_ones_alone(tmp_path: Path) -> None:
    source = BATCHES.replace('{"batch": 1}', '{"batch": 1, "eps": 0.5}')
    drop_in = loaded(exported(tmp_path / "made", source, "", built=False))
    assert drop_in.KERNEL.served is None
