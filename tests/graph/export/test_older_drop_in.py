"""A drop-in as it was written before drop-ins had gradients: `older_drop_in.zip`, with the runtime of its day."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path

import pytest
import torch
from drop_ins import exported, loaded
from test_drop_in_cells import KERNEL, SCALED, Net

from graph.export.drop_in import MODEL_NAME
from graph.export.live_drop_in import load_drop_in, own_module, patched


@pytest.fixture(scope="module")
def today(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built before the cache is an empty one, in which CuTe's headers would have to be compiled anew."""
    return exported(tmp_path_factory.mktemp("kernels") / "today", SCALED, KERNEL)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CUTEGEN_CACHE", str(tmp_path / "cache"))
    shutil.unpack_archive(Path(__file__).with_name("older_drop_in.zip"), tmp_path / "older")
    return tmp_path / "older"


def test_it_loads_beside_one_of_today_and_each_computes_as_it_did(today: Path, folder: Path) -> None:
    older = own_module(folder / MODEL_NAME, "reference")
    new = loaded(today).ModelNew()
    net, x = patched(folder / MODEL_NAME, Net().eval(), "reference"), torch.randn(4, 16)
    kernel = load_drop_in(folder / MODEL_NAME).KERNEL
    for model in (older, new, net):
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        with torch.no_grad():
            assert torch.equal(model(x), x * model.scale)
            assert torch.equal(compiled(x), x * model.scale)
    assert not kernel.fallbacks
    with warnings.catch_warnings(action="ignore"):
        for model in (older, new, net):
            model(x).sum().backward()
            torch.testing.assert_close(model.scale.grad, x.sum(0))
    assert dict(kernel.fallbacks) == {"gradient": 2}, "it has none of its own"
