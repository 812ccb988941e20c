"""Large inputs of a region: their beginning is kept, and its task makes the whole of it again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from graph.export import live_module
from harness.building.store import exported_modules
from harness.trusted.facts import describing
from harness.trusted.models import cutting
from harness.trusted.models.cutting import kept_of

SHAPE = (4, 64, 32)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cutting, "MOST_KEPT", 4096)


def task(folder: Path, *inputs: torch.Tensor) -> dict[str, Any]:
    """A region's task file as a namespace, beside the inputs as the cutter writes them."""
    torch.save(tuple(map(kept_of, inputs)), folder / live_module.INPUTS)
    names = ", ".join(f"x{k}" for k in range(len(inputs)))
    text = live_module._task_file(name="region", key="0" * 32, parameters=names, arguments=names)
    space: dict[str, Any] = {"__file__": str(folder / "task.py"), "__name__": "task"}
    exec(compile(text, "task.py", "exec"), space)
    return space


@pytest.mark.parametrize(
    "given",
    [torch.randn(SHAPE), torch.randn(SHAPE).transpose(0, 1), torch.randn(64, 4, 8, 8), torch.randn(170, 33).half()],
    ids=["plain", "turned", "square", "halves"],
)
def test_the_whole_has_its_layout_and_the_pieces_elements(given: torch.Tensor, tmp_path: Path) -> None:
    kept = kept_of(given)
    assert isinstance(kept, dict)
    assert kept["piece"].numel() * given.element_size() <= 4096
    space = task(tmp_path, given)
    torch.manual_seed(0)
    (first,), (again,) = space["get_inputs"](), space["get_inputs"]()
    assert (first.shape, first.stride(), first.dtype) == (given.shape, given.stride(), given.dtype)
    assert torch.equal(first, again), "under one seed it is the same"
    assert torch.isin(first, kept["piece"]).all()
    assert torch.equal(first.narrow(kept["axis"], 0, kept["piece"].shape[kept["axis"]]), kept["piece"])
    rows = first.movedim(kept["axis"], 0).flatten(1)
    if given.shape[-1] != given.shape[-2]:
        assert len(torch.unique(rows, dim=0)) == len(rows), "no two places along it are the same"
    torch.manual_seed(1)
    (other,) = space["get_inputs"]()
    assert not torch.equal(other, first)


def test_matrices_keep_their_inner_order(tmp_path: Path) -> None:
    given = torch.randn(64, 4, 8, 8).tril()
    torch.manual_seed(0)
    (made,) = task(tmp_path, given)["get_inputs"]()
    assert torch.equal(made, made.tril())


@pytest.mark.parametrize(
    "given",
    [
        torch.randn(16, 16), torch.randn(256, 256), torch.randn(4096), torch.randint(0, 9, (64, 64, 2)),
        (torch.randn(SHAPE) > 0).float(), torch.arange(4096.0).view(64, 64, 1).expand(64, 64, 2).cumsum(-1),
    ],
    ids=["small", "square", "vector", "integers", "mask", "positions"],
)  # fmt: skip
def test_what_is_small_or_has_a_structure_is_kept_whole(given: torch.Tensor) -> None:
    kept = kept_of(given)
    assert isinstance(kept, torch.Tensor)
    assert torch.equal(kept, given)


class Net(torch.nn.Module):
    """Weights, a buffer, a mask among its inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU())
        self.register_buffer("shift", torch.ones(32))

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.inner(x).where(mask, 0.0) + self.shift


def test_a_large_module_is_described_without_running_it_on_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUTEGEN_CACHE", str(tmp_path))
    _, source = live_module.module_source(Net(), (torch.randn(64, 32), torch.rand(64, 32) > 0.5))
    monkeypatch.setenv("CUTEGEN_EXPORTED", str(exported_modules().root))
    small = describing.describe(source, "net")
    monkeypatch.setattr(describing, "LARGE_FLOPS", 1)
    monkeypatch.setattr(describing, "require_one_shape", lambda *_: pytest.fail("it was run on values"))
    assert describing.describe(source, "net") == small
