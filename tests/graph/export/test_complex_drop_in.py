"""Complex buffers and inputs: the kernel is given their pairs of reals, and a drop-in's caller never sees that."""

from __future__ import annotations

import copy
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest
import torch
from drop_ins import candidate, described, exported, loaded

from graph.packages.form import Form, export
from harness.nouns.errors import UserError
from knowledge.compiler.problem import Problem
from knowledge.compiler.search.first import first_draft

ROTARY = """import torch


class Model(torch.nn.Module):
    def __init__(self, length=12, d=8):
        super().__init__()
        angle = torch.outer(torch.arange(length).float(), 0.1 ** torch.arange(d // 2))
        self.register_buffer("freqs_cis", torch.polar(torch.ones_like(angle), angle), persistent=False)

    def forward(self, x, shift):
        pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
        return torch.view_as_real(pairs * self.freqs_cis[: x.shape[1]] + shift).flatten(-2)


def get_inputs():
    return [torch.randn(2, 9, 8), torch.randn(4, dtype=torch.complex64)]
"""


@pytest.fixture(scope="module")
def drop_in(tmp_path_factory: pytest.TempPathFactory) -> Any:
    task = described(ROTARY)
    assert task.program is not None, task.trace_failure
    problem = Problem.model_validate(
        {"target": "cpu", "inputs": task.signature.inputs, "parameters": task.signature.parameters,
         "outputs": task.signature.outputs, "ops": task.program.ops, "returns": task.program.outputs},
        from_attributes=True,
    )  # fmt: skip
    return loaded(exported(Path(tmp_path_factory.mktemp("pairs")), ROTARY, first_draft(problem).source))  # type: ignore[union-attr]


def given() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(2, 9, 8), torch.randn(4, dtype=torch.complex64)


def test_a_signature_has_pairs_of_reals() -> None:
    signature = described(ROTARY).signature
    (buffer,), (x, shift) = signature.parameters, signature.inputs
    assert (buffer.dtype, buffer.shape, buffer.strides, buffer.pairs) == ("float32", (12, 4, 2), (8, 2, 1), True)
    assert (shift.dtype, shift.shape, shift.pairs) == ("float32", (4, 2), True)  # type: ignore[union-attr]
    assert not x.pairs  # type: ignore[union-attr]


def test_a_drop_in_takes_and_holds_complex_numbers(drop_in: Any) -> None:
    model, reference = drop_in.ModelNew().eval(), drop_in.reference.Model().eval()
    assert model.freqs_cis.dtype == torch.complex64
    for _ in range(2):  # the second call goes straight
        x, shift = given()
        torch.testing.assert_close(model(x, shift), reference(x, shift))
    model.freqs_cis = reference.freqs_cis = torch.randn(12, 4, dtype=torch.complex64)
    torch.testing.assert_close(copy.deepcopy(model)(x, shift.conj()), reference(x, shift.conj()))
    assert not drop_in.KERNEL.fallbacks


def test_gradients_reach_complex_inputs(drop_in: Any) -> None:
    found = []
    for model in (drop_in.ModelNew().eval(), drop_in.reference.Model().eval()):
        torch.manual_seed(0)
        x, shift = (each.requires_grad_() for each in given())
        model(x, shift).square().sum().backward()
        found.append((x.grad, shift.grad))
    torch.testing.assert_close(found[0], found[1])
    assert not drop_in.KERNEL.fallbacks


def test_real_numbers_in_a_complex_place_are_the_references(drop_in: Any) -> None:
    """In the shape of the pairs, too."""
    model, reference = drop_in.ModelNew().eval(), drop_in.reference.Model().eval()
    model.kernel_fallback = "reference"
    x, _ = given()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.testing.assert_close(model(x, torch.ones(4)), reference(x, torch.ones(4)))
    assert "shift is not complex" in str(caught[0].message)
    with pytest.raises(RuntimeError, match="size"):
        model(x, torch.ones(4, 2))


def test_a_compiled_drop_in_has_the_kernel(drop_in: Any) -> None:
    model, reference = drop_in.ModelNew().eval(), drop_in.reference.Model().eval()
    x, shift = given()
    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x, shift), reference(x, shift))


def test_parts_of_complex_numbers_are_views_of_them() -> None:
    body = "return torch.view_as_real(self.freqs_cis)[1:], shift.imag, x.mT"
    source = ROTARY[: ROTARY.index("pairs = ")] + body + ROTARY[ROTARY.index("\n\n\ndef") :]
    parts, imaginary, turned = described(source).signature.outputs
    assert parts.view and (parts.view.of, parts.view.strides, parts.view.offset) == ("freqs_cis", (8, 2, 1), 8)
    assert imaginary.view and (imaginary.view.of, imaginary.view.strides, imaginary.view.offset) == ("shift", (2,), 1)
    assert turned.view and turned.view.of == "x"


def test_forms_without_a_folder_say_that_they_hand_over_no_complex_numbers(tmp_path: Path) -> None:
    best = SimpleNamespace(candidate=candidate(""), verdict=None)
    record: Any = SimpleNamespace(task=described(ROTARY), best=best, name="rotary")
    for form in get_args(Form):
        if form != "folder":
            with pytest.raises(UserError, match="shift of a task is complex, which only a drop-in's own folder"):
                export(record, form, tmp_path / form)
