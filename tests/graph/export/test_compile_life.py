"""The backend "cutegen" in a model's life: copied, moved, saved, checkpointed, trained by DDP and FSDP."""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from drop_ins import exported
from test_compile_backend import KERNEL, TASK, Gated, compiled, placed
from torch import distributed, nn
from torch._dynamo.backends import registry
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.utils.checkpoint import checkpoint

from graph.export.runtime import backend, placing

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return exported(tmp_path_factory.mktemp("kernels") / "gate", TASK, KERNEL.replace("ADDED", "0"))


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A group of this process."""
    store = tmp_path_factory.mktemp("group") / "store"
    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    torch.manual_seed(0)
    torch._dynamo.reset()
    # Whoever came first in this process has registered: a folder's own copy of the backend may have.
    monkeypatch.setitem(registry._COMPILER_FNS, backend.NAME, backend.compile_graph)
    backend.COMPILED.clear()
    yield
    torch._dynamo.reset()


def step(call: Callable[[torch.Tensor], torch.Tensor], model: nn.Module) -> list[Any]:
    """The result on some inputs, and the gradients of the weights by that."""
    x = torch.randn(2, 8, 16, generator=torch.Generator().manual_seed(1))
    result = call(x)
    result.square().sum().backward()
    gradients: list[Any] = [each.grad for each in model.parameters()]
    model.zero_grad(set_to_none=True)
    return [result.detach(), *(each.full_tensor() if hasattr(each, "full_tensor") else each for each in gradients)]


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_a_model_that_is_trained_in_parallel_has_its_kernels(gate: Path, kind: str) -> None:
    model = nn.Sequential(Gated())
    wanted = step(model, model)
    if kind == "ddp":
        parallel: Any = nn.parallel.DistributedDataParallel(model)
    else:
        parallel = fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
    torch.testing.assert_close(step(compiled(parallel, gate), model), wanted)
    assert placed() == [{"gate": 1}]


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_checkpoint_around_a_compiled_model_has_its_kernels(gate: Path, reentrant: bool) -> None:
    """What is traced while it is compiled must not count among what the checkpoint sees saved."""
    if torch.cuda.is_available():  # PyTorch lets nobody initialize CUDA within a checkpoint, and compiling does
        torch.cuda.init()
    model = nn.Sequential(Gated())
    wanted, fast = step(model, model), compiled(model, gate)

    def call(x: torch.Tensor) -> Any:
        return checkpoint(fast, x.requires_grad_(), use_reentrant=reentrant)

    torch.testing.assert_close(step(call, model), wanted)
    assert placed()[0] == {"gate": 1}


def test_a_checkpoint_within_a_model_is_inductor_s_and_trains(gate: Path) -> None:
    model = nn.Sequential(Gated())
    wanted = step(model, model)
    fast = compiled(lambda x: checkpoint(model, x, use_reentrant=False), gate)
    torch.testing.assert_close(step(fast, model), wanted)
    assert placed() == [{}]
    assert "operators of higher order" in backend.COMPILED[0].reasons[0]


def test_autocast_trains_as_without_kernels_and_the_kernel_is_back_after_it(gate: Path) -> None:
    model = nn.Sequential(Gated())
    fast, wanted = compiled(model, gate), step(model, model)

    def cast(call: Any) -> Any:
        def run(x: torch.Tensor) -> Any:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return call(x).float()

        return run

    torch.testing.assert_close(step(cast(fast), model), step(cast(model), model), atol=5e-2, rtol=5e-2)
    torch.testing.assert_close(step(fast, model), wanted)
    assert placed() == [{}, {"gate": 1}]


@pytest.mark.filterwarnings("error:Attempted to insert a get_attr Node")
def test_an_optimizer_whose_step_is_put_together_anew_is_freed_with_its_state(
    gate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if a kernel had a place in its graph, which holds the state's tensors; nothing may wait for a collection."""
    monkeypatch.setattr(placing, "replace", lambda *_: ["gate"])
    weight = nn.Parameter(torch.ones(64))
    weight.grad = torch.ones(64)
    optimizer: Any = torch.optim.Adadelta([weight], lr=0.01)

    def call() -> None:
        optimizer.step()

    compiled(call, gate)()
    assert {"gate": 1} in placed()
    state = weakref.ref(optimizer.state[weight]["square_avg"])
    gc.disable()
    try:
        optimizer = None
        assert state() is None
    finally:
        gc.enable()


@torch.no_grad()
def test_a_copy_has_weights_of_its_own_and_states_go_round(gate: Path) -> None:
    model, x = nn.Sequential(Gated()), torch.randn(2, 8, 16)
    fast = compiled(model, gate)
    fast(x)
    other = copy.deepcopy(fast)
    for each in other.parameters():
        each.mul_(1.5)
    torch.testing.assert_close(fast(x), model(x))
    assert not torch.allclose(other(x), fast(x))
    fast.load_state_dict(other.state_dict())
    torch.testing.assert_close(fast(x), other(x))
    plain = nn.Sequential(Gated())
    plain.load_state_dict(model.state_dict())
    torch.testing.assert_close(plain(x), fast(x))
    assert placed()[0] == {"gate": 1}


@torch.no_grad()
def test_a_model_that_is_moved_to_another_type_is_inductor_s_until_it_is_moved_back(gate: Path) -> None:
    model, x = nn.Sequential(Gated()), torch.randn(2, 8, 16)
    fast = compiled(model, gate)
    for dtype in (torch.float32, torch.float64, torch.float32):
        fast.to(dtype)
        torch.testing.assert_close(fast(x.to(dtype)), model(x.to(dtype)))
    assert placed() == [{"gate": 1}, {}]
