"""A drop-in of a forward that writes buffers leaves them as the reference does, step by step."""

from __future__ import annotations

import copy
import os
import threading
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest
import torch
from drop_ins import beside_eager, candidate, described, exported, loaded

from graph.packages.form import Form, export
from harness.nouns.errors import UserError

SOURCE = """import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.rand(8) + 0.5)
        self.register_buffer("average", torch.zeros(8))
        self.register_buffer("last", torch.zeros(8))

    def forward(self, x):
        with torch.no_grad():
            self.average.mul_(0.5).add_(x.mean(0), alpha=0.5)
            self.last = x[0] - self.last
        return x * self.scale - self.average


def get_inputs():
    return [torch.randn(4, 8)]
"""
KERNEL = """
using tvm::ffi::TensorView;
static float* of(TensorView const& t) { return static_cast<float*>(t.data_ptr()); }
void run(TensorView x, TensorView scale, TensorView average, TensorView last, TensorView y, TensorView new_average,
         TensorView new_last) {
  for (int n = 0; n < 8; ++n) {
    float sum = 0;
    for (int m = 0; m < 4; ++m) sum += of(x)[8 * m + n];
    of(new_average)[n] = 0.5f * of(average)[n] + 0.125f * sum;
    of(new_last)[n] = of(x)[n] - of(last)[n];
    for (int m = 0; m < 4; ++m) of(y)[8 * m + n] = of(x)[8 * m + n] * of(scale)[n] - of(new_average)[n];
  }
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""


@pytest.fixture(scope="module")
def drop_in(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return loaded(exported(tmp_path_factory.mktemp("state"), SOURCE, KERNEL))


@pytest.fixture
def pair(drop_in: Any) -> tuple[Any, Any]:
    return beside_eager(drop_in)


def require_alike(model: Any, eager: Any) -> None:
    for name, wanted in eager.state_dict().items():
        torch.testing.assert_close(model.state_dict()[name], wanted, msg=name)


def steps(model: Any, eager: Any, count: int = 5) -> None:
    for _ in range(count):
        x = torch.randn(4, 8)
        torch.testing.assert_close(model(x), eager(x))
        require_alike(model, eager)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_each_step_leaves_what_the_reference_leaves(drop_in: Any, pair: tuple[Any, Any], mode: Any) -> None:
    with mode():
        steps(*pair)
    assert not drop_in.KERNEL.fallbacks


def test_what_is_written_in_place_stays_the_same_tensor_and_what_is_put_there_is_another(pair: tuple[Any, Any]) -> None:
    for each in pair:
        average, last = each.average, each.last
        version, kept = average._version, last.clone()
        with torch.no_grad():
            each(torch.randn(4, 8))
        assert each.average is average
        assert average._version > version
        assert each.last is not last
        assert torch.equal(last, kept)
        assert dict(each.named_buffers())["last"] is each.last


COUNTS = """import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        self.calls += 1
        return x * 2


def get_inputs():
    return [torch.randn(4, 8)]
"""
COUNTING = """
#include <unistd.h>
using tvm::ffi::TensorView;
void run(TensorView x, TensorView calls, TensorView y, TensorView counted) {
  auto const before = *static_cast<int64_t const*>(calls.data_ptr());
  usleep(1000);
  for (int i = 0; i < 32; ++i) static_cast<float*>(y.data_ptr())[i] = 2 * static_cast<float const*>(x.data_ptr())[i];
  *static_cast<int64_t*>(counted.data_ptr()) = before + 1;
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""


@pytest.mark.parametrize("forks", [False, True])
def test_no_call_of_several_threads_is_lost(tmp_path: Path, forks: bool) -> None:
    drop_in = loaded(exported(tmp_path, COUNTS, COUNTING))
    model, x, seen = drop_in.ModelNew().eval(), torch.randn(4, 8), []

    def call() -> None:
        with torch.no_grad():
            for _ in range(30):
                seen.append(torch.equal(model(x), 2 * x))

    call()  # which loads the library
    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    if forks:  # while somebody has his turn
        child = os.fork()
        if not child:
            with torch.no_grad():
                os._exit(0 if torch.equal(model(x), 2 * x) else 1)
        assert os.waitpid(child, 0)[1] == 0
    for thread in threads:
        thread.join()
    assert (int(model.calls), all(seen)) == (150, True)
    assert not drop_in.KERNEL.fallbacks


def test_a_kernel_that_fails_leaves_the_state_alone(drop_in: Any, pair: tuple[Any, Any]) -> None:
    model, eager = pair

    def fail(*values: Any) -> None:
        values[-1].fill_(7.0)
        raise RuntimeError("no room")

    before = copy.deepcopy(model.state_dict())
    kernel = drop_in.KERNEL
    known = {key: kept[:] for key, kept in kernel._known.items()}
    for kept in kernel._known.values():
        kept.clear()
    kernel._entries[None] = fail
    try:
        with torch.no_grad(), pytest.raises(RuntimeError, match="no room"):
            model(torch.randn(4, 8))
    finally:
        kernel._entries.clear()
        for key, kept in known.items():
            kernel._known[key][:] = kept
    for name, value in before.items():
        assert torch.equal(model.state_dict()[name], value)
    with torch.no_grad():
        steps(model, eager, 1)


def test_a_call_that_wants_a_gradient_is_the_reference_s(drop_in: Any, pair: tuple[Any, Any]) -> None:
    model, eager = pair
    model.kernel_fallback = "reference"
    for _ in range(2):
        x = torch.randn(4, 8)
        with warnings.catch_warnings(action="ignore"):
            model(x).square().sum().backward()
        eager(x).square().sum().backward()
        torch.testing.assert_close(model.scale.grad, eager.scale.grad)
        require_alike(model, eager)
    assert drop_in.KERNEL.fallbacks["gradient"] == 2
    with torch.no_grad():
        steps(model, eager, 2)
    model.kernel_fallback = "error"
    with pytest.raises(RuntimeError, match="no gradient"):
        model(torch.randn(4, 8))


def test_torch_compile_takes_the_kernel_and_writes_back(drop_in: Any, pair: tuple[Any, Any]) -> None:
    model, eager = pair
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        for _ in range(3):
            x = torch.randn(4, 8)
            torch.testing.assert_close(compiled(x), eager(x))
            require_alike(model, eager)
    assert not drop_in.KERNEL.fallbacks


def test_a_state_in_other_memory_is_written_where_it_lies(pair: tuple[Any, Any]) -> None:
    model, eager = pair
    wide = torch.zeros(8, 3)
    model.average = wide[:, 1]
    with torch.no_grad():
        steps(model, eager, 2)
    assert torch.equal(wide[:, 1], model.average)
    assert not wide[:, 0].any()


def test_forms_without_a_folder_say_that_they_cannot_write_back(tmp_path: Path) -> None:
    task = described(SOURCE)
    record: Any = SimpleNamespace(
        task=task, best=SimpleNamespace(candidate=candidate(KERNEL), verdict=None), name="state"
    )
    for form in get_args(Form):
        if form != "folder":
            with pytest.raises(UserError, match="writes average, whose new value only"):
                export(record, form, tmp_path / form)


STEPS = """import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.rand(8) + 0.5)
        self.register_buffer("average", torch.zeros(8))

    def forward(self, x):
        self.average.mul_(0.5).add_(x[0], alpha=0.5)
        return x[:, 2:], self.average[1:], x * self.scale


def get_inputs():
    return [torch.randn(4, 8)]
"""
STEP = """
using tvm::ffi::TensorView;
static float* of(TensorView const& t) { return static_cast<float*>(t.data_ptr()); }
void run(TensorView x, TensorView scale, TensorView average, TensorView rest, TensorView seen, TensorView y,
         TensorView now) {
  for (int n = 0; n < 8; ++n) of(now)[n] = 0.5f * of(average)[n] + 0.5f * of(x)[n];
  for (int n = 1; n < 8; ++n) of(seen)[n - 1] = of(now)[n];
  for (int m = 0; m < 4; ++m) {
    for (int n = 2; n < 8; ++n) of(rest)[6 * m + n - 2] = of(x)[8 * m + n];
    for (int n = 0; n < 8; ++n) of(y)[8 * m + n] = of(x)[8 * m + n] * of(scale)[n];
  }
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""


def test_views_beside_a_state_are_copies_that_no_later_step_changes(tmp_path: Path) -> None:
    """Of an input and of the buffer itself, which the next call writes."""
    model, eager = beside_eager(loaded(exported(tmp_path, STEPS, STEP)))
    kept, wanted = [], []
    for _ in range(4):
        x = torch.randn(4, 8)
        with torch.no_grad():
            results, expected = model(x), eager(x)
        torch.testing.assert_close(results, expected)
        require_alike(model, eager)
        held = {x.untyped_storage().data_ptr(), model.average.untyped_storage().data_ptr()}
        assert not held & {each.untyped_storage().data_ptr() for each in results}
        kept.append(results)
        wanted.append([each.clone() for each in expected])
    for results, expected in zip(kept, wanted, strict=True):
        torch.testing.assert_close(list(results), expected)
