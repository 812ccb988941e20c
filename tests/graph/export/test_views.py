"""Results that eager answers with views of an argument are views in a drop-in, too: in the same memory, not copies."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from drop_ins import described, exported, loaded

from graph.export.serving import Extent, served
from knowledge.compiler.problem import Problem
from knowledge.compiler.search.first import first_draft

FILE = """import torch
from torch.nn import functional


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(6, 5))

    def forward(self, x):
        {forward}


def get_inputs({taken}):
    return [torch.randn({rows}, 6, 8)]


def get_init_inputs():
    return []
"""


def file(forward: str, rows: str = "4", taken: str = "") -> str:
    return FILE.format(forward=forward, rows=rows, taken=taken)


def made(folder: Path, source: str) -> tuple[Any, Any, Any]:
    """The drop-in, its model, and the reference with the same weights."""
    task = described(source)
    assert task.program is not None
    problem = Problem.model_validate(
        {"target": "cpu", "inputs": task.signature.inputs, "parameters": task.signature.parameters,
         "outputs": task.signature.outputs, "ops": task.program.ops, "returns": task.program.outputs},
        from_attributes=True,
    )  # fmt: skip
    drop_in = loaded(exported(folder, source, first_draft(problem).source))  # type: ignore[union-attr]
    model, reference = drop_in.ModelNew().eval(), drop_in.reference.Model().eval()
    reference.load_state_dict(model.state_dict())
    return drop_in, model, reference


def flat(result: Any) -> list[torch.Tensor]:
    return [result] if isinstance(result, torch.Tensor) else list(result)


VIEWS = {
    "transposed": "return x.transpose(1, 2)",
    "sliced": "return x[:, 1:-1:2, 3:]",
    "expanded": "return x[:, :1].expand(4, 9, 8)",
    "unfolded": "return x.unfold(2, 4, 2)",
    "in chunks": "return x.chunk(3, 1)",
    "by diagonals": "return x.diagonal(0, 1, 2), x.permute(2, 0, 1).select(0, 3)",
    "itself": "return functional.dropout(x.contiguous(), 0.5, False)",
}
BESIDE = {
    "a view and a product": "return x.mT, x @ x.mT",
    "a weight": "return {'w': self.weight.t(), 'y': (x[..., :5] * self.weight).sum(1)}",
    "a view of what is made": "return x.relu().mT, x[1]",
}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("forward", [*VIEWS.values(), *BESIDE.values()], ids=[*VIEWS, *BESIDE])
def test_a_view_is_eager_s_own(forward: str, tmp_path: Path) -> None:
    drop_in, model, reference = made(tmp_path, file(forward))
    x = torch.randn(4, 6, 8)
    with torch.no_grad():
        for _ in range(2):  # the second goes straight
            results = model(x)
            wanted = reference(x)
            if isinstance(wanted, dict):
                assert list(results) == list(wanted)
                results, wanted = [*results.values()], [*wanted.values()]
            owned = {each.untyped_storage().data_ptr() for each in (x, reference.weight)}
            mine = {each.untyped_storage().data_ptr() for each in (x, model.weight)}
            for found, eager in zip(flat(results), flat(wanted), strict=True):
                torch.testing.assert_close(found, eager)
                is_view = eager.untyped_storage().data_ptr() in owned
                assert (found.untyped_storage().data_ptr() in mine) == is_view
                if is_view:
                    assert (found.stride(), found.storage_offset()) == (eager.stride(), eager.storage_offset())
        for written in flat(results):
            if written.untyped_storage().data_ptr() == x.untyped_storage().data_ptr():
                written.select(0, 0).fill_(7.0)
                assert (x == 7.0).any()
    assert not drop_in.KERNEL.fallbacks
    assert described(file(forward)).views_said in (tmp_path / "model_new.py").read_text()


def test_views_only_call_no_kernel_and_the_task_says_so(tmp_path: Path) -> None:
    source = file(VIEWS["in chunks"])
    assert described(source).views_said.startswith("All it returns is a view of x: ")
    assert described(file(BESIDE["a view and a product"])).views_said == "Views of x, as PyTorch gives them: output0."
    assert described(file("return x + 1")).views_said == ""
    drop_in = loaded(exported(tmp_path, source, "", built=False))  # nothing to call
    x = torch.randn(4, 6, 8)
    assert [each.data_ptr() for each in drop_in.ModelNew().eval()(x)] == [each.data_ptr() for each in x.chunk(3, 1)]


def test_gradients_go_through_views_as_through_eager_s(tmp_path: Path) -> None:
    _, model, reference = made(tmp_path, file("return x.mT, x[:, 0].detach(), x.exp().sum(1)"))
    found, wanted = [], []
    for module, into in ((model, found), (reference, wanted)):
        x = torch.linspace(0, 1, 192).view(4, 6, 8).requires_grad_()
        first, second, third = module(x)
        assert (first.requires_grad, second.requires_grad, third.requires_grad) == (True, False, True)
        into += torch.autograd.grad((first * 3).square().sum() + third.sum(), x)
        into += torch.autograd.grad(module(x)[0].sum(), x)
    torch.testing.assert_close(found, wanted)


def test_an_argument_that_lies_in_another_way_is_the_reference_s(tmp_path: Path) -> None:
    drop_in, model, reference = made(tmp_path, file(BESIDE["a view and a product"]))
    other = torch.randn(4, 8, 6).mT
    with pytest.raises(ValueError, match="x lies in another way, and a result is a view of it"):
        model(other)
    model.kernel_fallback = "reference"
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        found, wanted = model(other), reference(other)
    assert found[0].stride() == wanted[0].stride()
    assert found[0].data_ptr() == other.data_ptr()
    assert drop_in.KERNEL.fallbacks == {"layout": 1}


def test_compiled_programs_return_the_view(tmp_path: Path) -> None:
    _, model, reference = made(tmp_path, file("return x[:, 2:].mT, x.exp()"))
    whole = torch.randn(5, 6, 8)
    x = whole[1:]
    with torch.no_grad():
        wanted, found = reference(x), torch.compile(model, fullgraph=True, backend="aot_eager")(x)
    torch.testing.assert_close(found, wanted)
    assert found[0].data_ptr() == wanted[0].data_ptr() != x.data_ptr()
    assert found[0].stride() == wanted[0].stride()


def test_a_view_follows_the_sizes_that_a_kernel_serves() -> None:
    source = file("return x[:, 2:].mT, x.exp()", "batch", "batch=4") + '\nWORKLOADS = [{"batch": 4}, {"batch": 9}]\n'
    found = served(described(source))
    assert found is not None
    view = found.outputs[0].view
    assert view is not None
    assert (view.of, view.strides, view.offset) == ("x", (48, 1, 8), 16)
    turned = file("return x.permute(1, 2, 0)[0, 1:], x.exp()", "batch", "batch=4")
    assert served(described(turned + '\nWORKLOADS = [{"batch": 4}, {"batch": 9}]\n')) is not None
    assert str(Extent(2, (0,))) == "Extent(2, (0,), 0)"
