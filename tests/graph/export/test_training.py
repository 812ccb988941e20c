"""A forward's and a backward's kernel as one module that trains: its losses are eager's."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from graph.api.calls import save_training
from graph.export.training import training_files
from harness.isolation.tiers import resolve_tier
from harness.nouns.candidate import Candidate
from harness.nouns.errors import UserError
from harness.nouns.task import Task
from harness.tasks.declaring import directed
from harness.trusted.facts.describing import describe

CHEATS = Path(__file__).parents[2] / "cheats"
BACKWARD = (CHEATS / "tasks" / "gated_backward.py").read_text()
KERNEL = (CHEATS / "twins" / "takes_saved_output.cpp").read_text()
FORWARD_KERNEL = """
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>
using tvm::ffi::TensorView;
static float* at(TensorView t) { return static_cast<float*>(t.data_ptr()); }
void run(TensorView x, TensorView scale, TensorView shift, TensorView output) {
  for (int64_t i = 0; i < x.numel(); ++i) {
    float const y = at(x)[i] * at(scale)[i % scale.numel()] + at(shift)[i % scale.numel()];
    at(output)[i] = y <= 0.0f ? 0.0f : y;
  }
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""
STEPS = 10


def made(kernel: str, source: str) -> tuple[Task, Candidate]:
    task = Task.model_validate(describe(source, "gated"))
    return task, Candidate(source=kernel, target="cpu", author="test")


@pytest.fixture(scope="module")
def pair() -> tuple[tuple[Task, Candidate], tuple[Task, Candidate]]:
    assert resolve_tier("auto")
    return made(FORWARD_KERNEL, directed(BACKWARD, "forward")), made(KERNEL, BACKWARD)


def load(folder: Path) -> Any:
    spec = importlib.util.spec_from_file_location(f"trained_{folder.name}", folder / "model_new.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def losses(model: torch.nn.Module, seed: int) -> list[float]:
    """Ten steps of gradient descent on one batch drawn under a seed."""
    draw = torch.Generator().manual_seed(seed)
    x, wanted = torch.randn(64, 96, generator=draw), torch.randn(64, 96, generator=draw)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    found = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = (model(x) - wanted).square().mean()
        loss.backward()
        optimizer.step()
        found.append(float(loss.detach()))
    return found


def test_ten_steps_are_eagers_and_gradients_add_up(
    tmp_path: Path, pair: tuple[tuple[Task, Candidate], tuple[Task, Candidate]]
) -> None:
    for name, text in training_files(*pair).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    drop_in = load(tmp_path)
    start = drop_in.ModelNew(96).state_dict()
    curves = []
    for kind, seed in (
        (drop_in.forward.reference.Model, 0),
        (drop_in.ModelNew, 0),
        (drop_in.forward.reference.Model, 1),
    ):
        model = kind(96)
        model.load_state_dict(start)
        curves.append(torch.tensor(losses(model, seed)))
    eager, ours, other = curves
    assert ours[-1] < ours[0]
    assert float((ours - eager).abs().max()) < 1e-3 * float((other - eager).abs().max())

    one, two, x = drop_in.ModelNew(96), drop_in.forward.reference.Model(96), torch.randn(64, 96, requires_grad=True)
    two.load_state_dict(one.state_dict())
    for model in (one, two):
        for _ in range(2):
            model(x).sum().backward()
    torch.testing.assert_close(one.scale.grad, two.scale.grad)
    compiled = torch.compile(one, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(torch.autograd.grad(compiled(x).sum(), x), torch.autograd.grad(two(x).sum(), x))
    with pytest.raises(RuntimeError, match="no gradients of their own"):
        torch.autograd.grad(one(x).sum(), x, create_graph=True)


def test_two_runs_results_are_saved_as_one(
    tmp_path: Path, pair: tuple[tuple[Task, Candidate], tuple[Task, Candidate]]
) -> None:
    runs = [
        SimpleNamespace(record=SimpleNamespace(name="gated", task=task, best=SimpleNamespace(candidate=kernel)))
        for task, kernel in pair
    ]
    assert save_training(*runs, tmp_path / "trained") == tmp_path / "trained"  # type: ignore[arg-type]
    assert (tmp_path / "trained" / "backward" / "kernel.cu").read_text() == KERNEL
    assert "class ModelNew" in (tmp_path / "trained" / "model_new.py").read_text()
    runs[0].record.best = None
    with pytest.raises(UserError, match="run on gated has no kernel"):
        save_training(*runs, tmp_path)  # type: ignore[arg-type]


def test_what_does_not_belong_together_is_said(pair: tuple[tuple[Task, Candidate], tuple[Task, Candidate]]) -> None:
    there, back = pair
    with pytest.raises(UserError, match="a forward and a backward kernel, not backward and forward"):
        training_files(back, there)
    other = made(KERNEL, BACKWARD.replace("64, 96", "32, 96"))
    with pytest.raises(UserError, match="not one module's"):
        training_files(there, other)
