"""A drop-in where gradients are wanted: the kernel's forward, and the reference's gradients."""

from __future__ import annotations

import copy
import shutil
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from drop_ins import exported, loaded
from torch.nn.functional import mse_loss
from torch.utils.checkpoint import checkpoint

from graph.api.calls import load_task
from graph.export.drop_in import MODEL_NAME
from graph.export.live_drop_in import own_module, patched
from graph.export.live_module import module_files
from harness.building.store import exported_modules

GATED = """import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.rand(16) + 0.5)
        self.shift = torch.nn.Parameter(torch.rand(16))
        self.register_buffer("factor", torch.tensor(2.0), persistent=False)

    def forward(self, x):
        return (x * self.scale + self.shift).square() * self.factor


def get_inputs():
    return [torch.randn(4, 16)]
"""
KERNEL = """
void run(tvm::ffi::TensorView x, tvm::ffi::TensorView scale, tvm::ffi::TensorView shift, tvm::ffi::TensorView factor,
         tvm::ffi::TensorView y) {
  auto floats = [](tvm::ffi::TensorView const& t) { return static_cast<float*>(t.data_ptr()); };
  for (int m = 0; m < 4; ++m)
    for (int n = 0; n < 16; ++n) {
      float const z = floats(x)[16 * m + n] * floats(scale)[n] + floats(shift)[n];
      floats(y)[16 * m + n] = z * z * floats(factor)[0];
    }
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""
NO_KERNEL = "int never_built = ;"


@pytest.fixture(scope="module")
def drop_in(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return loaded(exported(tmp_path_factory.mktemp("gated"), GATED, KERNEL))


class Pair:
    """The drop-in and its reference with the same weights, and how often the kernel itself has run."""

    def __init__(self, drop_in: Any) -> None:
        self.file, self.kernel = drop_in, drop_in.KERNEL
        self.ours, self.eager = drop_in.ModelNew(), drop_in.reference.Model()
        self.eager.load_state_dict(self.ours.state_dict())
        self.x = torch.randn(4, 16)
        self.runs = 0
        entry = self.kernel._entry(torch.device("cpu"))
        self.kernel._entries[None] = lambda *values: self._count(entry, values)

    def _count(self, entry: Callable[..., None], values: tuple[Any, ...]) -> None:
        self.runs += 1
        entry(*values)

    def both(self, way: Callable[[torch.nn.Module], Any]) -> None:
        """What a way of using the model gives is the same of both; the kernel computes for one of them."""
        wanted = way(self.eager)
        assert self.runs == 0
        torch.testing.assert_close(way(self.ours), wanted)
        assert self.runs > 0
        assert not self.kernel.fallbacks
        grads = [[each.grad for each in model.parameters()] for model in (self.ours, self.eager)]
        torch.testing.assert_close(*grads)


@pytest.fixture
def pair(drop_in: Any) -> Iterator[Pair]:
    drop_in.KERNEL.fallbacks.clear()
    yield Pair(drop_in)
    drop_in.KERNEL._entries.clear()
    for known in drop_in.KERNEL._known.values():
        known.clear()


def leaf(x: torch.Tensor) -> torch.Tensor:
    return x.clone().requires_grad_()


def by_everything(pair: Pair, model: torch.nn.Module) -> Any:
    x = leaf(pair.x)
    model(x).sum().backward()
    return x.grad


def by_parameters_alone(pair: Pair, model: torch.nn.Module) -> Any:
    model(pair.x).sum().backward()


def by_inputs_alone(pair: Pair, model: torch.nn.Module) -> Any:
    model.requires_grad_(False)
    return by_everything(pair, model)


def by_one_of_the_parameters(pair: Pair, model: torch.nn.Module) -> Any:
    model.shift.requires_grad_(False)
    return by_everything(pair, model)


def added_up(pair: Pair, model: torch.nn.Module) -> Any:
    for _ in range(3):
        model(pair.x).sum().backward()
        (model(pair.x) + model(pair.x * 2)).mean().backward()


def the_same_graph_twice(pair: Pair, model: torch.nn.Module) -> Any:
    loss = model(pair.x).sum()
    loss.backward(retain_graph=True)
    loss.backward()


def between_other_operations(pair: Pair, model: torch.nn.Module) -> Any:
    x = leaf(pair.x)
    model(x.sin().t().contiguous().t()).exp().mean().backward()
    return x.grad


def a_changed_result(pair: Pair, model: torch.nn.Module) -> Any:
    y = model(pair.x)
    y.mul_(3).add_(1)
    y.sum().backward()


def expanded_gradient(pair: Pair, model: torch.nn.Module) -> Any:
    x = leaf(pair.x)
    return torch.autograd.grad(model(x), x, torch.ones(1, 16).expand(4, 16))


def second_derivatives(pair: Pair, model: torch.nn.Module) -> Any:
    x = leaf(pair.x)
    (first,) = torch.autograd.grad(model(x).square().sum(), x, create_graph=True)
    first.square().sum().backward()
    return x.grad


def steps(pair: Pair, model: torch.nn.Module) -> Any:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = mse_loss(model(pair.x), pair.x)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses


def of_a_copy(pair: Pair, model: torch.nn.Module) -> Any:
    other = copy.deepcopy(model)
    by_everything(pair, other)
    return [each.grad for each in other.parameters()]


def hooks(pair: Pair, model: torch.nn.Module) -> Any:
    seen: list[Any] = []
    model.register_full_backward_hook(lambda _, inner, outer: seen.extend((*inner, *outer)))
    model.scale.register_hook(lambda grad: grad * 2)
    return by_everything(pair, model), seen


def saved_elsewhere(pair: Pair, model: torch.nn.Module) -> Any:
    with torch.autograd.graph.saved_tensors_hooks(lambda each: each.double(), lambda each: each.float()):
        return by_everything(pair, model)


def checkpointed(pair: Pair, model: torch.nn.Module) -> Any:
    x = leaf(pair.x)
    for reentrant in (True, False):
        checkpoint(model, x, use_reentrant=reentrant).sum().backward()
    return x.grad


def backward_under_autocast(pair: Pair, model: torch.nn.Module) -> Any:
    x = leaf(pair.x)
    loss = model(x).sum()
    with torch.autocast("cpu"):
        loss.backward()
    return x.grad


def other_weights(pair: Pair, model: torch.nn.Module) -> Any:
    weights = {name: leaf(each.detach() * 3) for name, each in model.named_parameters()}
    torch.func.functional_call(model, weights, (pair.x,)).sum().backward()
    return [each.grad for each in weights.values()]


def a_weight_replaced_before_backward(pair: Pair, model: torch.nn.Module) -> Any:
    loss, scale = model(pair.x).sum(), model.scale
    model.scale = torch.nn.Parameter(torch.zeros(16))
    loss.backward()
    return scale.grad


def in_threads(pair: Pair, model: torch.nn.Module) -> Any:
    """Of different inputs, and weights, at the same time."""
    models = [copy.deepcopy(model) for _ in range(4)]
    for factor, each in enumerate(models):
        each.scale.data.mul_(factor + 1)

    def work(model: torch.nn.Module) -> None:
        for k in range(20):
            model(pair.x + k).sum().backward()

    threads = [threading.Thread(target=work, args=(each,)) for each in models]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return [each.grad for model in models for each in model.parameters()]


def compiled(pair: Pair, model: torch.nn.Module) -> Any:
    torch._dynamo.reset()
    return steps(pair, torch.compile(model, fullgraph=True))


def compiled_with_inputs_and_more_around(pair: Pair, model: torch.nn.Module) -> Any:
    torch._dynamo.reset()
    x = leaf(pair.x)
    torch.compile(lambda t: model(t.cos()).sin(), fullgraph=True, backend="aot_eager")(x).sum().backward()
    return x.grad


WAYS = [
    by_everything, by_parameters_alone, by_inputs_alone, by_one_of_the_parameters, added_up, the_same_graph_twice,
    between_other_operations, a_changed_result, expanded_gradient, second_derivatives, steps, of_a_copy, hooks,
    saved_elsewhere, checkpointed, backward_under_autocast, other_weights, a_weight_replaced_before_backward,
    in_threads, compiled, compiled_with_inputs_and_more_around,
]  # fmt: skip


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_the_kernel_computes_and_the_gradients_are_the_references(
    way: Callable[[Pair, torch.nn.Module], Any], pair: Pair
) -> None:
    pair.both(lambda model: way(pair, model))


@pytest.mark.parametrize("changed", ["input", "weight"])
def test_what_is_changed_in_place_before_the_backward_is_an_error_as_in_eager(pair: Pair, changed: str) -> None:
    for model in (pair.eager, pair.ours):
        x = leaf(pair.x) * 2
        loss = model(x).sum()
        with torch.no_grad():
            (x if changed == "input" else model.scale).add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


def test_a_result_hangs_on_a_graph_only_where_a_gradient_is_wanted(pair: Pair) -> None:
    assert pair.ours(pair.x).requires_grad
    with torch.no_grad():
        assert not pair.ours(pair.x).requires_grad
    with torch.inference_mode():
        assert pair.ours(pair.x).is_inference()
    pair.ours.requires_grad_(False)
    assert not pair.ours(pair.x).requires_grad
    assert pair.runs == 4
    with torch.inference_mode():
        x = torch.randn(4, 16)
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved"):
        pair.ours.requires_grad_(True)(x)


def test_other_shapes_and_autocast_still_go_to_the_reference(pair: Pair) -> None:
    pair.ours.kernel_fallback = "reference"
    with warnings.catch_warnings(action="ignore"):
        pair.ours(pair.x[:2]).sum().backward()
        with torch.autocast("cpu"):
            pair.ours(pair.x).sum().backward()
    assert (pair.runs, dict(pair.kernel.fallbacks)) == (0, {"shape": 1, "autocast": 1})
    assert pair.ours.scale.grad is not None


def test_the_first_backward_draws_no_random_numbers(tmp_path: Path) -> None:
    fresh = loaded(exported(tmp_path / "gated", GATED, f"// with an operator of its own\n{KERNEL}")).ModelNew()
    loss = fresh(torch.randn(4, 16)).sum()
    before = torch.get_rng_state()
    loss.backward()
    assert torch.equal(torch.get_rng_state(), before)


def test_exported_with_gradients_on_the_program_holds_the_operator_and_trains(pair: Pair) -> None:
    program = torch.export.export(pair.ours, (pair.x,))
    assert [node.target for node in program.graph.nodes if node.op == "call_function"] == [pair.kernel.operator]
    pair.ours = program.module()
    pair.both(lambda model: by_everything(pair, model))


MASKED = """import torch


class Model(torch.nn.Module):
    def __init__(self, power):
        super().__init__()
        self.power, self.mask = power, torch.arange(16.0)

    def forward(self, x):
        return x**self.power * self.mask


def get_inputs(rows=4, power=2):
    return [torch.randn(rows, 16)]


def get_init_inputs(power=2):
    return [power]


WORKLOADS = [{"rows": 4}, {"rows": 8, "power": 3}]
"""
MASKED_KERNEL = """
void run(tvm::ffi::TensorView x, tvm::ffi::TensorView y) {
  auto floats = [](tvm::ffi::TensorView const& t) { return static_cast<float*>(t.data_ptr()); };
  for (int64_t i = 0; i < x.numel(); ++i) {
    float const z = floats(x)[i];
    floats(y)[i] = z * z * (x.size(0) == 8 ? z : 1) * float(i % 16);
  }
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("compiler", [None, "aot_eager", "inductor"])
def test_each_workload_has_its_own_model_and_what_that_keeps_aside(tmp_path: Path, compiler: str | None) -> None:
    torch._dynamo.reset()
    drop_in = loaded(exported(tmp_path / "masked", MASKED, MASKED_KERNEL))
    for rows, power in ((4, 2), (8, 3)):
        model, x = drop_in.ModelNew(power), torch.randn(rows, 16, requires_grad=True)
        called = torch.compile(model, fullgraph=True, backend=compiler) if compiler else model
        (found,) = torch.autograd.grad(called(x).sum(), x)
        torch.testing.assert_close(found, power * x ** (power - 1) * torch.arange(16.0))


LIVE_KERNEL = """
void run(tvm::ffi::TensorView x, tvm::ffi::TensorView scale, tvm::ffi::TensorView w, tvm::ffi::TensorView b,
         tvm::ffi::TensorView y) {
  auto floats = [](tvm::ffi::TensorView const& t) { return static_cast<float*>(t.data_ptr()); };
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 4; ++j) {
      float sum = floats(b)[j];
      for (int k = 0; k < 4; ++k) sum += floats(x)[4 * i + k] * floats(w)[4 * j + k];
      floats(y)[4 * i + j] = std::tanh(sum) * floats(scale)[j];
    }
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh())
        self.scale = torch.nn.Parameter(torch.rand(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.inner(x) * self.scale
        return result


@pytest.mark.sampled(2)
@pytest.mark.parametrize("its_own", [True, False], ids=["module of its own", "module patched"])
def test_a_live_modules_gradients_are_its_programs(
    tmp_path: Path, its_own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUTEGEN_EXPORTED", str(exported_modules().root))
    net = Net()
    source = load_task(net, inputs=(torch.randn(3, 4),)).source
    folder = exported(tmp_path / "live", source, LIVE_KERNEL)
    for file in module_files(source):
        shutil.copy(file, folder)
    eager = copy.deepcopy(net)
    file = folder / MODEL_NAME
    ours = own_module(file, "error") if its_own else patched(file, net.eval(), "error")
    x = torch.randn(3, 4)
    for _ in range(2):
        found = []
        for model in (ours, eager):
            given = leaf(x)
            model(given).square().sum().backward()
            found.append([given.grad, *(model.get_parameter(name).grad for name, _ in eager.named_parameters())])
            torch.optim.SGD(model.parameters(), lr=0.1).step()
        torch.testing.assert_close(*found)


BACKWARD = GATED + '\n\nDIRECTION = "backward"\n'


def test_a_backwards_kernel_has_no_gradient_and_says_so(tmp_path: Path) -> None:
    drop_in = loaded(exported(tmp_path / "backward", BACKWARD, NO_KERNEL, built=False))
    given = [torch.zeros(each.shape) for each in drop_in.KERNEL.workloads[0].arguments[:-3]]
    with pytest.raises(RuntimeError, match="the kernel has no gradient"):
        drop_in.ModelNew()(*given)


def derivatives(call: Callable[[Any], Any], x: torch.Tensor) -> list[Any]:
    def total(x: torch.Tensor) -> Any:
        return call(x).square().sum()

    return [
        torch.func.grad(total)(x),
        torch.func.grad(lambda x: torch.func.grad(total)(x).sum())(x),
        torch.vmap(call)(torch.stack([x, 2 * x])),
        torch.func.jvp(call, (x,), (torch.ones_like(x),)),
    ]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("compiler", [None, "aot_eager"])
def test_function_transforms_go_to_the_reference_compiled_ones_too(pair: Pair, compiler: str | None) -> None:
    pair.ours.kernel_fallback = "reference"
    torch._dynamo.reset()

    def call(x: torch.Tensor) -> Any:
        return derivatives(pair.ours, x)

    with warnings.catch_warnings(action="ignore"):
        found = torch.compile(call, backend=compiler)(pair.x) if compiler else call(pair.x)
    torch.testing.assert_close(found, derivatives(pair.eager, pair.x))
    assert pair.runs == 0


def test_an_operator_called_by_itself_loses_no_derivative_without_a_word(pair: Pair) -> None:
    program = torch.export.export(pair.ours, (pair.x,)).module()
    with pytest.raises(RuntimeError, match="the kernel has no forward-mode derivative"):
        torch.func.jvp(program, (pair.x,), (pair.x,))
    with pytest.raises(RuntimeError, match="setup_context"):
        torch.func.grad(lambda x: program(x).sum())(pair.x)
    x = leaf(pair.x)
    with pytest.raises(RuntimeError, match="double backward"):
        call = torch.compile(pair.ours, backend="aot_eager")
        torch.autograd.grad(call(x).sum(), x, create_graph=True)[0].sum().backward()


SEVERAL = """from collections import namedtuple

import torch

Pair = namedtuple("Pair", "large small")
Found = namedtuple("Found", "y index rest")


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = torch.nn.Embedding(6, 4), torch.nn.Linear(4, 6, bias=False)
        self.head.weight = self.embed.weight
        self.norm = torch.nn.LayerNorm(4)

    def forward(self, pair, *, batch, mode="plain"):
        hidden = self.norm(self.embed(batch["index"]) + pair.large * batch["scale"])
        return Found(self.head(hidden), hidden.argmax(-1), {"small": pair.small.exp(), "plain": 3})


def get_inputs():
    pair = Pair(torch.rand(5, 4), torch.rand(3))
    return {"pair": pair, "batch": {"index": torch.arange(5), "scale": 2.0}}
"""
RECURRENT = """import torch


class Softer(torch.nn.Module):
    def forward(self, weight):
        return weight.tanh()


class Model(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.lstm = torch.nn.LSTM(3, width, batch_first=True)
        self.head = torch.nn.utils.parametrize.register_parametrization(torch.nn.Linear(width, 2), "weight", Softer())

    def forward(self, x, h, c):
        return self.head(self.lstm(x, (h, c))[0])


def get_inputs():
    return [torch.randn(2, 3, 3), torch.zeros(1, 2, 4), torch.zeros(1, 2, 4)]


def get_init_inputs():
    return [4]
"""
PRODUCTS = """import torch


class Model(torch.nn.Module):
    def forward(self, x, y):
        return torch.softmax(x @ y, -1), (x * 2).sum()


def get_inputs():
    return [torch.randn(3, 4), torch.randn(1, 4, 1).expand(2, 4, 5)]
"""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("source", [GATED, SEVERAL, RECURRENT, PRODUCTS], ids=["gated", "several", "lstm", "products"])
def test_recomputed_gradients_and_theirs_are_right_in_float64(source: str, tmp_path: Path) -> None:
    """The reference stands in for the kernel, which is float32: backward and double backward are the drop-in's."""
    kernel = loaded(exported(tmp_path / "drop_in", source, NO_KERNEL, built=False)).KERNEL
    gradients = kernel.gradients

    def forward(values: Any) -> Any:
        results = tuple(each.clone() for each in gradients.recomputed(list(values)))
        return results if len(results) > 1 else results[0]

    values = [drawn(each) for each in kernel.workloads[0].arguments]
    assert torch.autograd.gradcheck(lambda *given: floats(gradients.through(forward)(given)), values)
    assert torch.autograd.gradgradcheck(lambda *given: floats(gradients.through(forward)(given)), values)


def drawn(spec: Any) -> Any:
    if not hasattr(spec, "dtype"):
        return 2.0
    if not spec.dtype.is_floating_point:
        return torch.arange(spec.shape[0])
    return torch.rand(spec.shape, dtype=torch.float64).add_(0.1).requires_grad_()


def floats(results: Any) -> tuple[torch.Tensor, ...]:
    results = results if isinstance(results, tuple) else (results,)
    return tuple(each for each in results if each.is_floating_point())
