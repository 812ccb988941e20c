"""The table of docs/drop-in.md, cell by cell: one kernel, built once, met in every way that callers have."""

from __future__ import annotations

import copy
import io
import os
import pickle
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from drop_ins import exported, loaded
from torch.utils.flop_counter import FlopCounterMode

from graph.export.drop_in import MODEL_NAME
from graph.export.live_drop_in import load_drop_in, own_module, patched
from harness.nouns.errors import UserError

SCALED = """import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.rand(16))

    def forward(self, x):
        return x * self.scale


def get_inputs():
    return [torch.randn(4, 16)]
"""
KERNEL = """
void run(tvm::ffi::TensorView x, tvm::ffi::TensorView scale, tvm::ffi::TensorView y) {
  auto floats = [](tvm::ffi::TensorView const& t) { return static_cast<float*>(t.data_ptr()); };
#pragma omp parallel for
  for (int m = 0; m < 4; ++m)
    for (int n = 0; n < 16; ++n) floats(y)[16 * m + n] = floats(x)[16 * m + n] * floats(scale)[n];
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return exported(tmp_path_factory.mktemp("cells"), SCALED, KERNEL)


@pytest.fixture(scope="module")
def drop_in(folder: Path) -> Any:
    return loaded(folder)


class Called:
    """The model beside its reference, and how often the kernel itself has run."""

    def __init__(self, drop_in: Any, fallback: str) -> None:
        self.file, self.kernel = drop_in, drop_in.KERNEL
        self.model = drop_in.ModelNew().eval()
        self.model.kernel_fallback = fallback
        self.kernel.fallbacks.clear()
        self.x = torch.randn(4, 16)
        self.runs = 0
        entry = self.kernel._entry(torch.device("cpu"))
        self.kernel._entries[None] = lambda *values: self._count(entry, values)

    def _count(self, entry: Callable[..., None], values: tuple[Any, ...]) -> None:
        self.runs += 1
        entry(*values)

    def wanted(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.model.scale


@pytest.fixture
def called(drop_in: Any) -> Iterator[Called]:
    with warnings.catch_warnings(action="ignore"):
        yield Called(drop_in, "reference")
    drop_in.KERNEL._entries.clear()
    for known in drop_in.KERNEL._known.values():
        known.clear()


def same(got: torch.Tensor, wanted: torch.Tensor) -> bool:
    return type(got) is type(wanted) and got.dtype == wanted.dtype and torch.equal(got, wanted)


class Marked(torch.Tensor):
    """A tensor of somebody's own."""


def inference(c: Called) -> bool:
    with torch.inference_mode():
        return c.model(c.x).is_inference() and same(c.model(c.x), c.wanted(c.x))


def transposed(c: Called) -> bool:
    x = torch.randn(16, 4).t()
    return same(c.model(x), c.wanted(x).contiguous())


def unaligned(c: Called) -> bool:
    x = torch.randn(65)[1:].view(4, 16)
    return same(c.model(x), c.wanted(x))


def compiled(c: Called) -> bool:
    model = torch.compile(c.model, fullgraph=True, backend="aot_eager")
    return same(model(c.x), c.wanted(c.x)) and same(model(c.x), c.wanted(c.x))


def saved_program(c: Called) -> bool:
    program = torch.export.export(c.model, (c.x,))
    assert any("cutegen" in str(node.target) for node in program.graph.nodes)
    return same(program.module()(c.x), c.wanted(c.x))


def copied(c: Called) -> bool:
    other = copy.deepcopy(c.model)
    other.scale.data.zero_()
    return not other(c.x).any() and same(c.model(c.x), c.wanted(c.x))


def pickled(c: Called) -> bool:
    other = pickle.loads(pickle.dumps(c.model))
    return other.kernel_fallback == "reference" and same(other(c.x), c.model(c.x))


def state_dict(c: Called) -> bool:
    held = io.BytesIO()
    torch.save(c.file.reference.Model().state_dict(), held)
    held.seek(0)
    c.model.load_state_dict(torch.load(held))
    return same(c.model(c.x), c.wanted(c.x))


def there_and_back(c: Called) -> bool:
    c.model.half().float()
    return same(c.model(c.x), c.wanted(c.x))


def hooked(c: Called) -> bool:
    seen: list[torch.Tensor] = []
    c.model.register_forward_hook(lambda _, inputs, output: seen.append(output))
    return same(c.model(c.x), seen[0])


def in_threads(c: Called) -> bool:
    found: list[bool] = []

    def work() -> None:
        with torch.no_grad():
            found.extend(same(c.model(c.x), c.wanted(c.x)) for _ in range(50))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return found == [True] * 200


def forked(c: Called) -> bool:
    assert same(c.model(c.x), c.wanted(c.x))
    child = os.fork()
    if child == 0:
        os._exit(0 if same(c.model(c.x), c.wanted(c.x)) else 1)
    return os.waitpid(child, 0)[1] == 0


def counted_operator(c: Called) -> bool:
    with FlopCounterMode(display=False):
        return same(c.model(c.x), c.wanted(c.x))


WORKS = [
    inference, transposed, unaligned, compiled, saved_program, copied, pickled, state_dict, there_and_back, hooked,
    in_threads, forked, counted_operator,
]  # fmt: skip


@pytest.mark.parametrize("way", WORKS, ids=lambda way: way.__name__)
def test_the_kernel_does_the_work(way: Callable[[Called], bool], called: Called) -> None:
    with torch.no_grad():
        assert way(called)
    assert called.runs > 0
    assert not called.kernel.fallbacks


def autocast(c: Called) -> bool:
    with torch.no_grad(), torch.autocast("cpu"):
        return same(c.model(c.x), c.wanted(c.x))


def shape(c: Called) -> bool:
    with torch.no_grad():
        return same(c.model(c.x[:3]), c.wanted(c.x[:3]))


def dtype(c: Called) -> bool:
    with torch.no_grad():
        return same(c.model(c.x.double()), c.wanted(c.x.double()))


def half(c: Called) -> bool:
    with torch.no_grad():
        return same(c.model.half()(c.x.half()), c.wanted(c.x.half()))


def device(c: Called) -> bool:
    with torch.no_grad():
        return c.model.to("meta")(c.x.to("meta")).is_meta


def subclass(c: Called) -> bool:
    with torch.no_grad():
        return same(c.model(c.x.as_subclass(Marked)), c.wanted(c.x.as_subclass(Marked)))


def number(c: Called) -> bool:
    with torch.no_grad():
        return same(c.model(2.0), c.wanted(2.0))  # type: ignore[arg-type]


def negated(c: Called) -> bool:
    with torch.no_grad():
        return same(c.model(torch._neg_view(c.x)), c.wanted(-c.x))


def vmap(c: Called) -> bool:
    x = torch.randn(5, 4, 16)
    with torch.no_grad():
        return same(torch.vmap(c.model)(x), c.wanted(x))


def function_gradient(c: Called) -> bool:
    with torch.no_grad():
        found = torch.func.grad(lambda x: c.model(x).sum())(c.x)
    return torch.allclose(found, c.model.scale.expand(4, 16))


def forward_mode(c: Called) -> bool:
    with torch.no_grad(), torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(c.x, torch.ones(4, 16))
        found = torch.autograd.forward_ad.unpack_dual(c.model(dual)).tangent
    return found is not None and torch.allclose(found, c.model.scale.expand(4, 16))


FALLS_BACK = {
    autocast: "autocast", shape: "shape", dtype: "dtype",
    half: "dtype", device: "device", subclass: "type", number: "type", negated: "layout", vmap: "transform",
    function_gradient: "transform", forward_mode: "transform",
}  # fmt: skip


@pytest.mark.parametrize(("way", "kind"), FALLS_BACK.items(), ids=lambda each: getattr(each, "__name__", each))
def test_the_reference_does_the_work_and_is_counted(way: Callable[[Called], bool], kind: str, called: Called) -> None:
    with torch.no_grad():
        called.model(called.x)
    assert called.runs == 1
    assert way(called)
    assert called.runs == 1
    assert dict(called.kernel.fallbacks) == {kind: 1}


@pytest.mark.parametrize(("way", "kind"), FALLS_BACK.items(), ids=lambda each: getattr(each, "__name__", each))
def test_with_errors_wanted_the_same_calls_are_refused(
    way: Callable[[Called], bool], kind: str, called: Called
) -> None:
    called.model.kernel_fallback = "error"
    of_the_call = kind in ("autocast", "transform")
    with pytest.raises(RuntimeError if of_the_call else ValueError, match=r"kernel"):
        way(called)
    assert called.runs == 0


def test_a_fallback_is_told_once_a_kind(called: Called) -> None:
    with torch.no_grad(), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for rows in (3, 2, 1):
            called.model(called.x[:rows])
        called.model(called.x.double())
    assert [str(each.message).split(";")[0] for each in told] == ["x has shape (3, 16)", "x is torch.float64"]
    assert dict(called.kernel.fallbacks) == {"shape": 3, "dtype": 1}


@pytest.mark.parametrize("dynamic", [None, True])
def test_compiled_other_shapes_go_to_the_reference(called: Called, dynamic: bool | None) -> None:
    torch._dynamo.reset()
    model = torch.compile(called.model, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    with torch.no_grad():
        for rows in (4, 3, 2, 4):
            assert same(model(called.x[:rows]), called.wanted(called.x[:rows]))
    assert called.runs == 2


def test_exported_with_a_dynamic_batch_the_reference_is_what_is_exported(called: Called) -> None:
    with torch.no_grad():
        rows = torch.export.Dim("rows", min=2, max=64)
        program = torch.export.export(called.model, (called.x,), dynamic_shapes={"x": {0: rows}})
        for count in (4, 7):
            x = torch.randn(count, 16)
            assert same(program.module()(x), called.wanted(x))
    assert called.runs == 0


class Net(torch.nn.Module):
    """Somebody's own: more arguments, and a method that its forward needs."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.rand(16))

    def scaled(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale

    def forward(self, x: torch.Tensor, twice: bool = False) -> torch.Tensor:
        return self.scaled(x) * (2 if twice else 1)


@pytest.fixture(scope="module")
def patching(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose operator counts for nobody else."""
    return exported(tmp_path_factory.mktemp("patching"), SCALED, f"// another source\n{KERNEL}")


@pytest.fixture
def net(patching: Path) -> Iterator[Net]:
    kernel = load_drop_in(patching / MODEL_NAME).KERNEL
    with warnings.catch_warnings(action="ignore"):
        yield patched(patching / MODEL_NAME, Net().eval(), "reference")
    kernel.fallbacks.clear()


def test_a_module_is_patched_and_keeps_what_is_its_own(net: Net, patching: Path) -> None:
    kernel, x = load_drop_in(patching / MODEL_NAME).KERNEL, torch.randn(4, 16)
    assert isinstance(net, Net)
    with torch.no_grad():
        assert torch.equal(net(x), x * net.scale)
        assert torch.equal(net(x=x), x * net.scale)
        assert not kernel.fallbacks
        assert torch.equal(net(x, twice=True), x * net.scale * 2)
        assert torch.equal(net(x[:2]), x[:2] * net.scale)
        net.train()
        assert torch.equal(net(x), x * net.scale)
    assert dict(kernel.fallbacks) == {"argument": 1, "shape": 1, "mode": 1}
    assert torch.equal(patched(patching / MODEL_NAME, net, "error").scaled(x), x * net.scale)
    with pytest.raises(RuntimeError, match=r"call \.eval\(\) first"):
        net(x)


@pytest.mark.parametrize("again", [copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))])
def test_a_patched_module_is_copied_with_its_kernel(net: Net, again: Callable[[Net], Net], patching: Path) -> None:
    other, x = again(net), torch.randn(4, 16)
    assert type(other) is type(net)
    kernel = load_drop_in(patching / MODEL_NAME).KERNEL
    with torch.no_grad():
        assert torch.equal(other(x), net(x))
        assert not kernel.fallbacks
        other.scale.zero_()
        assert net(x).any()
    assert other.training is net.training is False


def test_a_patched_module_compiles_and_trains(net: Net, patching: Path) -> None:
    x = torch.randn(4, 16)
    compiled = torch.compile(net, fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        assert torch.equal(compiled(x), x * net.scale)
    net(x).sum().backward()
    assert torch.allclose(net.scale.grad, x.sum(0))
    assert not load_drop_in(patching / MODEL_NAME).KERNEL.fallbacks


def test_a_module_with_other_weights_is_not_patched(patching: Path) -> None:
    with pytest.raises(UserError, match=r"a weight scale of shape \(16,\), which this Linear has not"):
        patched(patching / MODEL_NAME, torch.nn.Linear(2, 2), "reference")


def test_a_module_of_its_own_falls_back_where_it_may(patching: Path, caplog: pytest.LogCaptureFixture) -> None:
    model, x = own_module(patching / MODEL_NAME, "reference"), torch.randn(2, 16)
    with torch.no_grad(), pytest.warns(UserWarning, match="x has shape") as said:
        assert torch.equal(model(x), x * model.scale)
    assert len(said) == 1 and not caplog.messages  # a logger without handlers would print it a second time
