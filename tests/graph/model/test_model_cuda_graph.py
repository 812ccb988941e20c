"""An assembled model's calls as CUDA graphs: which are replayed, and that nobody can tell; on a GPU, and as if."""

from __future__ import annotations

import contextlib
import copy
import warnings
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

from graph.export.live_drop_in import load_drop_in
from graph.model.sources import rendered
from harness.machine.gpu import find_gpu


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.drop = nn.Linear(8, 8), nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.drop(nn.functional.scaled_dot_product_attention(self.linear(x), x, x))


class Counting(Net):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return super().forward(x)


class Drawing(Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) + torch.rand_like(x)


class Same(Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return super().forward(x), x.transpose(-1, -2)  # type: ignore[return-value]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    path = tmp_path_factory.mktemp("fast") / "model_fast.py"
    path.write_text(
        rendered("model_fast.py.j2", title="net", regions="{}", parts=[""], graphs=True, mode="", told="{}", gpu="")
    )
    return load_drop_in(path)


@pytest.fixture(autouse=True)
def ungraded() -> Any:
    with torch.no_grad():
        yield


class AsIfGraph:
    """Replaying is calling once more on the graph's own tensors, into its own results."""

    replay_of: Any = None

    def replay(self) -> None:
        mine = AsIfGraph.replay_of
        for kept, new in zip(mine.results, [mine.fast(*mine.given)], strict=True):
            kept.copy_(new)


class Stream:
    def wait_stream(self, other: Any) -> None:
        pass


@pytest.fixture
def as_if(monkeypatch: pytest.MonkeyPatch, file: ModuleType) -> Any:
    """A module's replay where there is no GPU: `torch.cuda` does as if."""
    one = Stream()
    for name, value in {
        "CUDAGraph": AsIfGraph, "Stream": Stream, "current_stream": lambda: one,
        "stream": lambda _: contextlib.nullcontext(), "graph": lambda _: contextlib.nullcontext(),
        "is_current_stream_capturing": lambda: False,
    }.items():  # fmt: skip
        monkeypatch.setattr(torch.cuda, name, value)

    def made(net: nn.Module, x: torch.Tensor) -> Any:
        fast = file.accelerate(net, (x,))
        forward = fast.forward
        AsIfGraph.replay_of = forward.replay = file.Replay(forward.fast, [*net.parameters()], fast.kernels)
        monkeypatch.setattr(torch.Tensor, "is_cuda", property(lambda _: True))
        return fast

    return made


def test_a_replayed_call_gives_what_a_call_gives_and_later_ones_change_none_of_it(as_if: Any) -> None:
    net, x, y = Net().eval(), torch.randn(1, 1, 4, 8), torch.randn(1, 1, 4, 8)
    fast = as_if(net, x)
    one, two = fast(x), fast(y)
    assert fast.kernels.replays == 2
    assert torch.equal(one, net(x))
    assert torch.equal(two, net(y))
    net.linear.weight.mul_(2)
    assert torch.equal(fast(x), net(x)), "what is written into a weight is seen"
    assert fast.kernels.replays == 3


def test_on_another_gpu_than_it_was_timed_on_it_says_so(file: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a small GPU")
    monkeypatch.setattr(file, "GPU", "a large GPU")
    with pytest.warns(UserWarning, match="timed on a large GPU, and this is a small GPU"):
        file._compare_devices()
    monkeypatch.setattr(file, "GPU", "a small GPU")
    with warnings.catch_warnings(action="error"):
        file._compare_devices()


def test_moved_weights_other_streams_and_other_types_are_not_replayed(
    as_if: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    net, x = Net().eval(), torch.randn(1, 1, 4, 8)
    fast = as_if(net, x)
    fast(x)
    with torch.autocast("cpu", torch.bfloat16):
        assert fast(x).dtype == net(x).dtype
    with monkeypatch.context() as other:
        other.setattr(torch.cuda, "current_stream", Stream)
        assert torch.equal(fast(x), net(x))
    net.linear.weight.data = net.linear.weight.data * 2
    assert torch.equal(fast(x), net(x))
    assert fast.kernels.replays == 1


def test_results_that_share_memory_with_what_was_given_stay_what_they_are(as_if: Any) -> None:
    x = torch.randn(1, 1, 4, 8)
    fast = as_if(Same().eval(), x)
    assert fast(x)[1].data_ptr() == x.data_ptr()
    assert fast.kernels.replays == 0


@pytest.mark.parametrize(("kind", "replayable"), [(Net, True), (Counting, False), (Drawing, False)])
def test_what_draws_or_leaves_something_behind_is_not_replayed(
    file: ModuleType, kind: type[nn.Module], replayable: bool
) -> None:
    net = kind().eval()
    program = file._program(net, ((torch.randn(1, 1, 4, 8),), {}))
    assert file._replayable(program) is replayable


@pytest.mark.gpu
@pytest.mark.skipif(find_gpu() is None, reason="no NVIDIA GPU answers here")
def test_on_a_gpu_a_graph_stands_for_the_whole(file: ModuleType) -> None:
    net, x, y = Net().cuda().eval(), torch.randn(1, 1, 4, 8, device="cuda"), torch.randn(1, 1, 4, 8, device="cuda")
    fast = file.accelerate(net, (x,))
    one, two = fast(x), fast(y)
    assert torch.equal(one, net(x))
    assert torch.equal(two, net(y))
    assert fast.kernels.replays == 2
    with torch.cuda.stream(torch.cuda.Stream()):
        assert torch.equal(fast(x), net(x))
    assert torch.equal(copy.deepcopy(fast)(x), net(x))
    assert fast.kernels.replays == 2
