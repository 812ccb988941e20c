"""Which calls of an assembled model are its kernels', and that others are the module's own. Here it has no kernels."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

from graph.export.live_drop_in import load_drop_in
from graph.model.sources import rendered


class Net(nn.Module):
    """Two tied layers, a dropout, and a buffer that counts calls."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.drop = nn.Linear(8, 8), nn.Linear(8, 8), nn.Dropout(0.5)
        self.two.weight = self.one.weight
        self.register_buffer("calls", torch.zeros(()))
        self.bias = 0.5

    def forward(self, x: torch.Tensor, *, scale: float = 1.0) -> dict[str, Any]:
        self.calls += 1
        x.add_(1.0)
        return {"y": [self.drop(self.two(self.one(x))) * scale + self.bias], "x": x}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    path = tmp_path_factory.mktemp("fast") / "model_fast.py"
    path.write_text(
        rendered("model_fast.py.j2", title="net", regions="{}", parts=[""], graphs=True, mode="", told="{}", gpu="")
    )
    return load_drop_in(path)


def made(file: ModuleType) -> tuple[Net, Any, torch.Tensor]:
    net, x = Net().eval(), torch.randn(4, 8)
    return net, file.accelerate(net, (x,), {"scale": 2.0}, graphs=True), x


def of(module: Any, x: torch.Tensor, scale: float = 2.0) -> torch.Tensor:
    torch.manual_seed(1)
    result: torch.Tensor = module(x, scale=scale)["y"][0]
    return result


@pytest.fixture(autouse=True)
def ungraded() -> Any:
    with torch.no_grad():
        yield


def exchange(fast: Any) -> None:
    """Another tensor in a weight's place, as merging an adapter leaves it."""
    fast.two.weight = nn.Parameter(fast.two.weight * 3)


CALLS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "training mode": (lambda fast: fast.train(), "training"),
    "one module in training mode": (lambda fast: fast.drop.train(), "training"),
    "a weight exchanged": (exchange, "another tensor"),
    "other types, whose buffers are others": (lambda fast: fast.double(), "another tensor"),
    "another layer": (lambda fast: setattr(fast, "two", nn.Linear(8, 8)), "a layer"),
    "a layer around a layer": (lambda fast: setattr(fast, "two", nn.Sequential(fast.two, nn.ReLU())), "a layer"),
    "another number": (lambda fast: setattr(fast, "bias", 3.0), "a number"),
    "another forward": (lambda fast: setattr(fast.one, "forward", lambda x: x), "a forward"),
    "a hook": (lambda fast: fast.one.register_forward_hook(lambda module, given, result: result * 2), "a hook"),
    "a hook before": (lambda fast: fast.one.register_forward_pre_hook(lambda module, given: given[0] * 2), "a hook"),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_that_is_not_the_kernels_is_the_modules_own_counted_and_told_once(file: ModuleType, name: str) -> None:
    change, why = CALLS[name]
    _, fast, x = made(file)
    change(fast)
    own = copy.copy(fast)
    own.__dict__ = {key: value for key, value in fast.__dict__.items() if key != "forward"}
    given = x.double() if fast.one.weight.dtype == torch.float64 else x
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = [of(fast, given.clone()) for _ in range(2)]
    assert all(torch.equal(each, of(own, given.clone())) for each in found)
    [(reason, times)] = fast.kernels.fallbacks.items()
    assert (why in reason, times) == (True, 2)
    assert sum("own forward" in str(each.message) for each in told) == 1


def test_a_call_like_the_first_is_the_kernels_and_leaves_behind_what_eager_leaves(file: ModuleType) -> None:
    net, fast, x = made(file)
    before = x.clone()
    assert torch.equal(of(fast, x), of(net, before))
    assert torch.equal(x, before)
    assert float(net.calls) == 2, "one of each: the buffer is the module's own"
    net.one.weight.mul_(2)
    assert torch.equal(of(fast, x), of(net, before)), "what is written into a tied weight is seen"
    assert fast.kernels.fallbacks == {}
    assert list(fast.state_dict()) == list(net.state_dict())
    with pytest.warns(UserWarning, match="own forward"):
        assert torch.equal(of(fast, x, scale=3.0), of(net, before, scale=3.0)), "another number"


STAND_IN = """
from torch import nn

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.w0 = nn.Parameter()

    def forward(self, x, *others):
        return nn.functional.linear(x, self.w0, *others)
"""


def test_a_copy_s_kernels_compute_over_the_copy_s_weights(tmp_path: Path) -> None:
    net, x = nn.Sequential(nn.Linear(8, 8, bias=False), nn.ReLU()).eval(), torch.randn(4, 8)
    operation = ("linear", "aten.linear.default")
    place = {
        "part": "",
        "operations": [operation],
        "weights": ["p_0_weight"],
        "inputs": ["input"],
        "outputs": ["linear"],
    }
    (tmp_path / "regions" / "product").mkdir(parents=True)
    (tmp_path / "regions" / "product" / "model_new.py").write_text(STAND_IN)
    path = tmp_path / "model_fast.py"
    told = {"title": "net", "parts": [""], "graphs": False, "mode": "", "told": "{}", "gpu": ""}
    path.write_text(rendered("model_fast.py.j2", regions=repr({"product": [place]}), **told))
    fast = load_drop_in(path).accelerate(net, (x,))
    other = copy.deepcopy(copy.deepcopy(fast))
    other[0].weight.mul_(-1)
    assert torch.equal(other(x), (x @ -net[0].weight.T).relu())
    assert torch.equal(fast(x), net(x))
    assert not fast.kernels.fallbacks and not other.kernels.fallbacks


def test_gradients_are_the_modules_own(file: ModuleType) -> None:
    net, fast, x = made(file)
    with torch.enable_grad(), pytest.warns(UserWarning, match="gradients"):
        of(fast, x).sum().backward()
    assert net.one.weight.grad is not None
