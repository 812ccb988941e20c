"""A drop-in on a GPU: what a call of it costs, and that graphs, streams, threads, devices and processes work."""

from __future__ import annotations

import copy
import os
import pickle
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from graph.api.calls import RunResult, optimize
from harness.machine.gpu import find_gpu

TASK = """import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.rand(1024))

    def forward(self, x):
        return torch.relu(x) * self.scale

def get_inputs():
    return [torch.randn(64, 1024)]
"""
OVER_ALLOCATING_US = 8.0
"""What a call may cost its caller beside the outputs' allocation."""
FOR_GRADIENTS_US = 15.0
"""And where a gradient is wanted, beside that: 6 on a processor."""
FIRST_CALL_S = 5.0
IN_A_PROCESS = """
import torch, model_new
model, x = model_new.ModelNew().cuda(), torch.randn(64, 1024, device="cuda")
with torch.no_grad():
    print(torch.equal(model(x), torch.relu(x) * model.scale))
"""

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(find_gpu() is None, reason="no NVIDIA GPU answers here"),
    pytest.mark.usefixtures("ungraded"),
]


@pytest.fixture
def ungraded() -> Any:
    with torch.no_grad():
        yield


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    folder = tmp_path_factory.mktemp("scaled")
    (folder / "scaled.py").write_text(TASK)
    return optimize(folder / "scaled.py", depth=0, target="cuda", out=folder / "run")


@pytest.fixture(scope="module")
def model(result: RunResult) -> nn.Module:
    """Made and called for the first time where no compiler is found."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CXX", "/no/such/compiler")
        patch.setenv("CUDA_HOME", "/no/such/folder")
        made = result.module()
        began = time.perf_counter()
        with torch.no_grad():
            made(given())
        torch.cuda.synchronize()
        assert time.perf_counter() - began < FIRST_CALL_S
    return made


def given() -> torch.Tensor:
    return torch.randn(64, 1024, device="cuda")


def expected(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x) * model.scale


def microseconds(call: Callable[[], object], calls: int = 200, rounds: int = 15) -> float:
    """The caller's time a call: orders alone; the device is waited for between rounds."""
    found = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(calls):
            call()
        found.append((time.perf_counter() - began) / calls * 1e6)
    return statistics.median(found)


@pytest.mark.alone
def test_a_call_costs_little_over_allocating_its_output(model: nn.Module, record_property: Callable[..., None]) -> None:
    x = given()
    alone = microseconds(lambda: torch.empty_strided((64, 1024), (1024, 1), device="cuda"))
    called = microseconds(lambda: model(x))
    record_property("microseconds", called - alone)
    assert called - alone <= OVER_ALLOCATING_US


def test_a_graph_captures_it(model: nn.Module) -> None:
    static, graph = given(), torch.cuda.CUDAGraph()
    model(static)
    with torch.cuda.graph(graph):
        out = model(static)
    static.copy_(given())
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out, expected(model, static))


def test_it_waits_for_what_its_stream_was_told_before(model: nn.Module) -> None:
    x, stream = given(), torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(200_000_000)
        doubled = x * 2
        behind = model(doubled)
    stream.synchronize()
    assert torch.equal(behind, expected(model, x * 2))


def test_threads_call_it_on_streams_of_their_own(model: nn.Module) -> None:
    right: list[bool] = []

    def work() -> None:
        with torch.no_grad(), torch.cuda.stream(torch.cuda.Stream()):
            mine = given()
            got = [model(mine) for _ in range(50)][-1]
            torch.cuda.current_stream().synchronize()
            right.append(torch.equal(got, expected(model, mine)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert right == [True] * 4


def test_it_compiles_whole_and_pickles(model: nn.Module) -> None:
    x = given()
    assert torch.equal(torch.compile(model, fullgraph=True)(x), expected(model, x))
    assert torch.equal(pickle.loads(pickle.dumps(model))(x), expected(model, x))


@pytest.mark.parametrize("compiled", [False, True])
def test_it_trains_with_the_references_gradients(model: nn.Module, compiled: bool) -> None:
    kernel = sys.modules[type(model).__module__].KERNEL
    before = dict(kernel.fallbacks)
    ours, eager = copy.deepcopy(model), copy.deepcopy(model)
    call = torch.compile(ours, fullgraph=True) if compiled else ours
    with torch.enable_grad():
        for _ in range(3):
            x, wanted = given().requires_grad_(), given()
            found = []
            for result, weight in ((call(x), ours.scale), (expected(eager, x), eager.scale)):
                loss = (result - wanted).square().mean()
                found.append((loss.detach(), *torch.autograd.grad(loss, (x, weight))))
            torch.testing.assert_close(*found)
    assert kernel.fallbacks == before


@pytest.mark.alone
def test_a_call_with_gradients_costs_little_over_one_without(
    model: nn.Module, record_property: Callable[..., None]
) -> None:
    x = given()
    without = microseconds(lambda: model(x))
    with torch.enable_grad():
        wanting = microseconds(lambda: model(x))
    record_property("microseconds", wanting - without)
    assert wanting - without <= FOR_GRADIENTS_US


def test_on_the_processor_the_reference_does_the_work(result: RunResult) -> None:
    model, x = result.module(), torch.randn(64, 1024)
    assert torch.equal(model.cpu()(x), expected(model, x))


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_on_a_second_gpu_the_kernel_does(result: RunResult) -> None:
    model, x = result.module().to("cuda:1"), given().to("cuda:1")
    fallbacks = sys.modules[type(model).__module__].KERNEL.fallbacks
    before = dict(fallbacks)  # by the tests before this one: modules of one result share their kernel
    assert torch.equal(model(x), expected(model, x))
    assert torch.cuda.current_device() == 0 and fallbacks == before


def test_two_processes_load_a_saved_folder_at_once(result: RunResult, tmp_path: Path) -> None:
    saved = result.save(tmp_path / "saved")
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{saved}:{os.environ.get('PYTHONPATH', '')}",
           "HOME": str(tmp_path), "CUTEGEN_CACHE": str(tmp_path / "cache")}  # fmt: skip
    started = [
        subprocess.Popen([sys.executable, "-c", IN_A_PROCESS], cwd="/", env=env, stdout=-1, stderr=-1, text=True)
        for _ in range(2)
    ]
    for process in started:
        said, told = process.communicate(timeout=200)
        assert said == "True\n", told
        assert "compiling" not in told
