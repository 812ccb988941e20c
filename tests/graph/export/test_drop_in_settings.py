"""What callers change of a module beside its tensors: a kernel has it fixed, so the reference takes those calls."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from drop_ins import exported, loaded
from torch import nn
from torch.nn.utils import prune

from graph.export.live_drop_in import patched

BLOCK = """from types import SimpleNamespace
import torch
from torch import nn


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)
        self.factor = 2.0

    def forward(self, x):
        self.seen = x.shape
        return self.drop(x) * self.factor


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.line = nn.Linear(16, 16, bias=False)
        self.act, self.inner = nn.ReLU(), Inner()
        self.scale, self.powers, self.with_shift = 3.0, [1.0, 4.0], True
        self.config = SimpleNamespace(shift=1.0)
        self.mask = torch.ones(16)
        self.call = torch.abs

    def forward(self, x):
        y = self.inner(self.act(self.line(x))) * self.scale * self.powers[1] * self.mask
        return self.call(y) + self.config.shift if self.with_shift else y


def get_inputs():
    return [torch.randn(8, 16)]
"""
KERNEL = """
void run(tvm::ffi::TensorView x, tvm::ffi::TensorView w, tvm::ffi::TensorView y) {
  auto floats = [](tvm::ffi::TensorView const& t) { return static_cast<float*>(t.data_ptr()); };
  for (int m = 0; m < 8; ++m)
    for (int n = 0; n < 16; ++n) {
      float sum = 0;
      for (int k = 0; k < 16; ++k) sum += floats(x)[16 * m + k] * floats(w)[16 * n + k];
      floats(y)[16 * m + n] = std::max(sum, 0.0f) * 24 + 1;
    }
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return exported(tmp_path_factory.mktemp("settings"), BLOCK, KERNEL)


@pytest.fixture(scope="module")
def drop_in(folder: Path) -> Any:
    return loaded(folder)


def models(drop_in: Any) -> tuple[Any, Any]:
    model, eager = drop_in.ModelNew().eval(), drop_in.reference.Model().eval()
    model.kernel_fallback = "reference"
    model.load_state_dict(eager.state_dict())
    drop_in.KERNEL.fallbacks.clear()
    return model, eager


def alike(model: Any, eager: Any) -> bool:
    x = torch.randn(8, 16)
    torch.manual_seed(1)
    with torch.no_grad(), warnings.catch_warnings(action="ignore"):
        got = model(x)
        torch.manual_seed(1)
        return torch.allclose(got, eager(x), atol=1e-4)


def wrapped(model: Any) -> None:
    model.line = nn.Sequential(model.line, nn.Tanh())


CHANGES: dict[str, Callable[[Any], object]] = {
    "a number": lambda m: setattr(m, "scale", 0.5),
    "a parameter now": lambda m: (delattr(m, "scale"), m.register_parameter("scale", nn.Parameter(torch.ones(1)))),
    "an element of a list": lambda m: m.powers.__setitem__(1, 0.5),
    "a flag": lambda m: setattr(m, "with_shift", False),
    "a configuration": lambda m: setattr(m.config, "shift", 5.0),
    "another configuration": lambda m: setattr(m, "config", SimpleNamespace(shift=5.0)),
    "a function": lambda m: setattr(m, "call", torch.neg),
    "a tensor that is no buffer": lambda m: setattr(m, "mask", torch.zeros(16)),
    "such a tensor in place": lambda m: m.mask.zero_(),
    "an inner number": lambda m: setattr(m.inner, "factor", 1.0),
    "another part": lambda m: setattr(m, "act", nn.Tanh()),
    "a wrapped part": wrapped,
    "a part left out": lambda m: setattr(m, "act", nn.Identity()),
    "a hook of a part": lambda m: m.act.register_forward_hook(lambda _module, _given, made: made + 1),
    "a hook before a part": lambda m: m.act.register_forward_pre_hook(lambda _module, given: (given[0] + 1,)),
    "a part's forward": lambda m: setattr(m.act, "forward", torch.tanh),
    "a pruned weight": lambda m: (prune.l1_unstructured(m.line, "weight", 0.5), m.line.weight_orig.data.mul_(3)),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("called_before", [False, True])
@pytest.mark.parametrize("copied", ["itself", "a deep copy", "a shallow copy", "pickled"])
def test_what_a_kernel_has_fixed_and_is_changed_is_computed_by_the_reference(
    change: str, called_before: bool, copied: str, drop_in: Any
) -> None:
    model, eager = models(drop_in)
    if called_before:
        assert alike(model, eager)
        assert not drop_in.KERNEL.fallbacks
    for each in (model, eager):
        CHANGES[change](each)
    if copied != "itself":
        if copied == "pickled" and ("hook" in change or "forward" in change):
            pytest.skip("a lambda has no name to be pickled by")
        if copied == "a deep copy" and "pruned" in change:
            pytest.skip("PyTorch copies no weight that has a history")
        how: Any = {"a deep copy": copy.deepcopy, "a shallow copy": copy.copy, "pickled": _again}[copied]
        model = how(model)
    assert alike(model, eager)
    assert dict(drop_in.KERNEL.fallbacks) == {"setting": 1}
    model.kernel_fallback = "error"
    with pytest.raises(RuntimeError, match="the kernel was made for the module as it was"):
        model(torch.randn(8, 16))


def _again(model: Any) -> Any:
    return pickle.loads(pickle.dumps(model))


def test_back_as_it_was_the_kernel_takes_over(drop_in: Any) -> None:
    model, eager = models(drop_in)
    model.scale = 5.0
    eager.scale = 5.0
    assert alike(model, eager)
    model.scale = eager.scale = 3.0
    assert alike(model, eager)
    assert dict(drop_in.KERNEL.fallbacks) == {"setting": 1}


def test_a_part_alone_in_training_mode(drop_in: Any) -> None:
    model, eager = models(drop_in)
    assert alike(model, eager)
    for each in (model, eager):
        each.inner.train()
    assert alike(model, eager)
    assert dict(drop_in.KERNEL.fallbacks) == {"mode": 1}


def test_what_says_nothing_of_the_forward_leaves_the_kernel(drop_in: Any) -> None:
    model, eager = models(drop_in)
    assert alike(model, eager)
    model.name, model.inner.note = "a name", ["a note"]
    model.train().eval()
    model.requires_grad_(False)
    model.inner.seen = (1, 2)  # what the reference's forward leaves there
    assert alike(model, eager)
    assert alike(copy.deepcopy(model), eager)
    assert alike(_again(model), eager)
    assert not drop_in.KERNEL.fallbacks


def test_a_module_of_the_callers_own(folder: Path) -> None:
    eager = loaded(folder).reference.Model().eval()
    net = patched(folder / "model_new.py", copy.deepcopy(eager), "error")
    assert alike(net, eager)
    for each in (net, eager):
        each.scale = 0.5
    twin = copy.deepcopy(net)
    with pytest.raises(RuntimeError, match="scale has changed"):
        net(torch.randn(8, 16))
    net.kernel_fallback = twin.kernel_fallback = "reference"
    assert alike(net, eager)
    assert alike(twin, eager)
    assert alike(patched(folder / "model_new.py", net, "reference"), eager)


def test_nothing_is_held_of_a_module_that_is_gone(drop_in: Any) -> None:
    model, eager = models(drop_in)
    assert alike(model, eager)
    held = len(drop_in.KERNEL._held)
    del model
    assert len(drop_in.KERNEL._held) == held - 1
