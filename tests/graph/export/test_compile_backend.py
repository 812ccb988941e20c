"""The backend "cutegen" of torch.compile: kernels of folders inside what Inductor compiles."""

from __future__ import annotations

import re
import shutil
import sys
import tomllib
import warnings
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
import torch
from drop_ins import exported
from torch import nn
from torch._dynamo.backends import registry
from torch.nn import functional as F

from graph.export.runtime import backend
from graph.model.sources import rendered

TASK = """import torch
import torch.nn.functional as F


class Model(torch.nn.Module):
    def forward(self, a, b):
        return F.silu(a) * b


def get_inputs():
    return [torch.randn(2, 8, 32), torch.randn(2, 8, 32)]
"""
# What the kernel adds tells its calls from those of Inductor's own code.
KERNEL = """
#include <cmath>
void run(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView y) {
  auto floats = [](tvm::ffi::TensorView const& t) { return static_cast<float*>(t.data_ptr()); };
  for (int i = 0; i < 512; ++i)
    floats(y)[i] = floats(a)[i] / (1 + std::exp(-floats(a)[i])) * floats(b)[i] + ADDED;
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""
NORM = """import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(16)

    def forward(self, x, y):
        total = x + y
        return total, self.norm(total)


def get_inputs():
    return [torch.randn(2, 8, 16), torch.randn(2, 8, 16)]
"""
NORM_KERNEL = """
#include <cmath>
void run(tvm::ffi::TensorView x, tvm::ffi::TensorView y, tvm::ffi::TensorView w, tvm::ffi::TensorView b,
         tvm::ffi::TensorView total, tvm::ffi::TensorView normed) {
  auto floats = [](tvm::ffi::TensorView const& t) { return static_cast<float*>(t.data_ptr()); };
  for (int row = 0; row < 16; ++row) {
    float* t = floats(total) + row * 16;
    float mean = 0, square = 0;
    for (int k = 0; k < 16; ++k) t[k] = floats(x)[row * 16 + k] + floats(y)[row * 16 + k], mean += t[k] / 16;
    for (int k = 0; k < 16; ++k) square += (t[k] - mean) * (t[k] - mean) / 16;
    for (int k = 0; k < 16; ++k)
      floats(normed)[row * 16 + k] = (t[k] - mean) / std::sqrt(square + 1e-5f) * floats(w)[k] + floats(b)[k];
  }
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""


class Gated(nn.Module):
    """A norm, a gated layer and a residual; the gate is the kernel's."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.down = nn.LayerNorm(16), nn.Linear(32, 16)
        self.gate, self.up = nn.Linear(16, 32), nn.Linear(16, 32)

    def forward(self, x: torch.Tensor) -> Any:
        seen = self.norm(x)
        return x + self.down(F.silu(self.gate(seen)) * self.up(seen))


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return exported(tmp_path_factory.mktemp("kernels") / "gate", TASK, KERNEL.replace("ADDED", "0"))


@pytest.fixture(scope="module")
def shifted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return exported(tmp_path_factory.mktemp("kernels") / "gate", TASK, KERNEL.replace("ADDED", "1"))


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    torch.manual_seed(0)
    torch._dynamo.reset()
    # Whoever came first in this process has registered: a folder's own copy of the backend may have.
    monkeypatch.setitem(registry._COMPILER_FNS, backend.NAME, backend.compile_graph)
    backend.COMPILED.clear()
    backend._TOLD.clear()
    yield
    torch._dynamo.reset()


def compiled(module: Any, folder: Any, **options: Any) -> Any:
    return torch.compile(module, backend="cutegen", options={"kernels": folder, **options})


def placed() -> list[dict[str, int]]:
    return [dict(each.placed) for each in backend.COMPILED]


def test_torch_finds_the_backend_by_the_entry_point_of_the_package() -> None:
    text = Path(__file__).parents[3].joinpath("pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(text)["project"]
    (item,) = project["entry-points"]["torch_dynamo_backends"].items()
    assert f"torch>={'.'.join(map(str, backend.LEAST_TORCH))}" in project["dependencies"]
    assert item[0] == backend.NAME
    assert EntryPoint(item[0], item[1], "torch_dynamo_backends").load() is backend.compile_graph
    assert torch._dynamo.lookup_backend("cutegen") is backend.compile_graph


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_a_kernel_takes_every_place_that_computes_the_same(gate: Path, mode: Any) -> None:
    model, x = nn.Sequential(Gated(), Gated()), torch.randn(2, 8, 16)
    with mode():
        torch.testing.assert_close(compiled(model, gate)(x), model(x))
    assert placed() == [{"gate": 2}]


def test_what_runs_is_the_kernel(shifted: Path) -> None:
    a, b = torch.randn(2, 2, 8, 32).unbind()
    with torch.no_grad():
        found = compiled(lambda a, b: F.silu(a) * b, shifted)(a, b)
    torch.testing.assert_close(found, F.silu(a) * b + 1)


def test_where_inductor_writes_cpp_the_kernel_is_called_as_well(shifted: Path) -> None:
    a, b = torch.randn(2, 2, 8, 32).unbind()
    with torch.no_grad():
        found = compiled(lambda a, b: F.silu(a) * b, shifted, cpp_wrapper=True)(a, b)
    torch.testing.assert_close(found, F.silu(a) * b + 1)


def test_a_kernel_of_several_results_whose_first_is_used_twice(tmp_path: Path) -> None:
    folder = exported(tmp_path / "norm", NORM, NORM_KERNEL)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.line = nn.LayerNorm(16), nn.Linear(16, 16)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
            for _ in range(2):
                x = x + y
                late = x * 2  # stands before the norm, and reads what the kernel gives
                y = self.line(self.norm(x)) + late
            return x, y

    model, given = Model(), (torch.randn(2, 8, 16), torch.randn(2, 8, 16))
    with torch.no_grad():
        torch.testing.assert_close(compiled(model, folder)(*given), model(*given))
    assert placed() == [{"norm": 2}]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "change",
    [
        lambda a, b: F.silu(a) + b,
        lambda a, b: F.silu(b.double()).float() * a,
        lambda a, b: F.silu(a)[:1] * b,
        lambda a, b: F.silu(a.transpose(0, 1).contiguous().transpose(0, 1)) * b,
    ],
)
def test_another_operation_type_size_or_layout_is_inductor_s(shifted: Path, change: Any) -> None:
    a, b = torch.randn(2, 2, 8, 32).unbind()
    with torch.no_grad():
        torch.testing.assert_close(compiled(change, shifted)(a, b), change(a, b))
    assert placed() == [{}]


def test_a_value_inside_that_is_used_outside_keeps_the_region_inductor_s(shifted: Path) -> None:
    def model(a: torch.Tensor, b: torch.Tensor) -> Any:
        inner = F.silu(a)
        return inner * b, inner

    a, b = torch.randn(2, 2, 8, 32).unbind()
    with torch.no_grad():
        torch.testing.assert_close(compiled(model, shifted)(a, b), model(a, b))
    assert placed() == [{}]


def test_writes_in_place_to_inputs_and_between_operations_are_kept(gate: Path) -> None:
    def model(a: torch.Tensor, b: torch.Tensor, seen: torch.Tensor) -> Any:
        a = a + 1
        a.mul_(2)
        seen.add_(1)
        y = F.silu(a) * b
        seen.copy_(y[0])
        y[0] += seen
        return y

    given = [torch.randn(2, 8, 32), torch.randn(2, 8, 32), torch.zeros(8, 32)]
    again = [each.clone() for each in given]
    with torch.no_grad():
        torch.testing.assert_close(compiled(model, gate)(*given), model(*again))
    torch.testing.assert_close(given, again)
    assert placed() == [{"gate": 1}]


def _returns_what_it_adds_to(a: torch.Tensor, b: torch.Tensor, seen: torch.Tensor) -> Any:
    return F.silu(a) * b, seen.add_(1)


def _returns_what_it_copied(a: torch.Tensor, b: torch.Tensor, seen: torch.Tensor) -> Any:
    y = F.silu(a) * b
    seen.copy_(y)
    return y, b


def _returns_a_view_of_what_it_wrote(a: torch.Tensor, b: torch.Tensor, seen: torch.Tensor) -> Any:
    seen.add_(1)
    return F.silu(a) * b, seen.view(-1)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("model", "places"),
    [
        (_returns_what_it_adds_to, [{"gate": 1}]),
        (_returns_what_it_copied, [{"gate": 1}]),
        (_returns_a_view_of_what_it_wrote, [{}]),
    ],
)
def test_a_result_shares_memory_with_a_written_input_where_it_does_in_eager(
    gate: Path, model: Any, places: list[dict[str, int]]
) -> None:
    def shared(run: Any, given: list[torch.Tensor]) -> list[bool]:
        with torch.no_grad():
            results = run(*given)
        return [each.untyped_storage()._cdata == one.untyped_storage()._cdata for each in results for one in given]

    given = [torch.randn(2, 8, 32), torch.randn(2, 8, 32), torch.zeros(2, 8, 32)]
    again = [each.clone() for each in given]
    assert shared(compiled(model, gate), given) == shared(model, again)
    torch.testing.assert_close(given, again)
    assert placed() == places


def test_a_graph_break_makes_two_graphs_with_kernels_in_both(gate: Path) -> None:
    first, second = Gated(), Gated()

    def model(x: torch.Tensor) -> Any:
        y = first(x)
        torch._dynamo.graph_break()
        return second(y)

    x = torch.randn(2, 8, 16)
    with torch.no_grad():
        torch.testing.assert_close(compiled(model, gate)(x), model(x))
    assert placed() == [{"gate": 1}, {"gate": 1}]


def test_other_sizes_compile_anew_and_are_inductor_s(gate: Path) -> None:
    model = Gated()
    fast = compiled(model, gate)
    with torch.no_grad():
        for batch in (2, 3, 5, 2):
            x = torch.randn(batch, 8, 16)
            torch.testing.assert_close(fast(x), model(x))
    assert placed() == [{"gate": 1}, {}]  # the second for any batch


def test_training_updates_the_statistics_of_norms(gate: Path) -> None:
    norm, again = nn.BatchNorm1d(8), nn.BatchNorm1d(8)

    def model(norm: Any, a: torch.Tensor, b: torch.Tensor, times: int) -> torch.Tensor:
        y = F.silu(a) * b
        for _ in range(times):
            y = norm(y)
        return y

    for times, places in ((1, [{"gate": 1}]), (2, [{"gate": 1}, {}])):
        a, b = torch.randn(2, 2, 8, 32, requires_grad=True)
        wanted = model(again, a, b, times)
        got = compiled(model, gate)(norm, a, b, times)
        torch.testing.assert_close(got, wanted)
        for ours, theirs in zip(
            *(torch.autograd.grad(each.pow(3).sum(), (a, b)) for each in (got, wanted)), strict=True
        ):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(dict(norm.named_buffers()), dict(again.named_buffers()))
        assert placed() == places


def test_a_model_that_turns_gradients_off_has_those_of_what_came_before(gate: Path) -> None:
    def model(a: torch.Tensor, b: torch.Tensor) -> Any:
        y = F.silu(a) * b
        torch.set_grad_enabled(False)
        return y, y + 1

    a, b = torch.randn(2, 2, 8, 32, requires_grad=True)
    try:
        y, more = compiled(model, gate)(a, b)
        assert not torch.is_grad_enabled()
    finally:
        torch.set_grad_enabled(True)
    torch.testing.assert_close(torch.autograd.grad(y.sum(), b), (F.silu(a),))
    assert not more.requires_grad
    assert placed() == [{"gate": 1}]


def test_autocast_and_checkpoints_are_inductor_s(shifted: Path) -> None:
    model, x = Gated(), torch.randn(2, 8, 16)
    fast = compiled(model, shifted)
    with torch.autocast("cpu"), torch.no_grad():
        torch.testing.assert_close(fast(x), model(x), atol=2e-2, rtol=2e-2)

    def again(x: torch.Tensor) -> Any:
        return torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False)

    torch.testing.assert_close(compiled(again, shifted)(x), model(x))
    assert placed() == [{}, {}]
    assert "autocast" in backend.COMPILED[0].reasons[0]


def test_a_cast_turned_off_within_the_model_changes_nothing(gate: Path) -> None:
    model = Gated()

    def within(x: torch.Tensor) -> Any:
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            positions = x.float().cos()
        return model(x) + positions

    x = torch.randn(2, 8, 16)
    torch.testing.assert_close(compiled(within, gate)(x), within(x))
    assert placed() == [{"gate": 1}]


def test_inductor_s_options_and_modes_pass_through(gate: Path) -> None:
    model, x = Gated(), torch.randn(2, 8, 16)
    for options in ({"mode": "reduce-overhead"}, {"epilogue_fusion": True, "max_autotune": False}):
        torch._dynamo.reset()
        with torch.no_grad():
            torch.testing.assert_close(compiled(model, gate, **options)(x), model(x))
    assert placed() == [{"gate": 1}] * 2
    torch._dynamo.reset()
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(model, backend="cutegen", mode="reduce-overhead")(x), model(x))
        with pytest.raises(Exception, match="Unexpected optimization option nonsense"):
            compiled(model, gate, nonsense=True)(x)


def test_a_tensor_made_of_numbers_within_the_model_stays_what_it_is(gate: Path) -> None:
    model = Gated()

    def within(x: torch.Tensor) -> Any:
        return torch.where(model(x) > torch.tensor(0.25), torch.tensor([1.0, 2.0] * 8), x)

    x = torch.randn(2, 8, 16)
    with torch.no_grad():
        torch.testing.assert_close(compiled(within, gate)(x), within(x))
    assert placed() == [{"gate": 1}]


def test_a_graph_that_nobody_thought_of_is_inductor_s(gate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graph.export.runtime.placing.replace", lambda *_: 1 // 0)
    (said,) = _said(gate)
    assert "ZeroDivisionError" in said


def test_weights_exchanged_after_compiling_are_the_ones_that_count(gate: Path) -> None:
    model, x = Gated(), torch.randn(2, 8, 16)
    fast = compiled(model, gate)
    with torch.no_grad():
        fast(x)
        model.gate.weight = nn.Parameter(torch.randn(32, 16))
        model.load_state_dict({name: value + 0.1 for name, value in model.state_dict().items()})
        torch.testing.assert_close(fast(x), model(x))
    assert placed()[0] == {"gate": 1}


def _said(folder: Any, model: Any = None) -> list[str]:
    """What is told of a folder; the results are right all the same."""
    model, x = model or Gated(), torch.randn(2, 8, 16)
    torch._dynamo.reset()
    with warnings.catch_warnings(record=True) as caught, torch.no_grad():
        warnings.simplefilter("always")
        torch.testing.assert_close(compiled(model, folder)(x), model(x))
        torch.testing.assert_close(compiled(nn.Sequential(model), folder)(x), model(x))
    return [str(each.message) for each in caught if "Inductor compiles without" in str(each.message)]


def test_a_folder_that_cannot_be_used_is_told_once_and_inductor_s(gate: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    damaged, open_to_all = (Path(shutil.copytree(gate, tmp_path / name)) for name in ("damaged", "open"))
    (damaged / "model_new.py").write_text("import torch\nKERNEL = None.nothing\n")
    open_to_all.chmod(0o777)
    uncalled = Path(shutil.copytree(gate, tmp_path / "cuda"))
    text = (uncalled / "model_new.py").read_text()
    (uncalled / "model_new.py").write_text(
        re.sub('"k_[0-9a-f]{16}"', '"k_00000000000000ff"', text.replace('device="cpu"', 'device="cuda"'))
    )
    for folder, part in [
        (tmp_path / "none", "is no folder"),
        (tmp_path / "empty", "holds no kernel"),
        (damaged, "is damaged: AttributeError"),
        (open_to_all, "can be written by others"),
        (uncalled, "are for cuda, and this graph computes on cpu"),
    ]:
        (said,) = _said(folder)
        assert part in said
    assert placed() == [{}] * 10


def test_a_torch_whose_names_have_moved_compiles_without_kernels(gate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "graph.export.runtime.placing", raising=False)
    monkeypatch.delattr("torch.fx.experimental.symbolic_shapes.free_unbacked_symbols")
    (said,) = _said(gate)
    assert torch.__version__ in said
    assert backend.COMPILED[-1].reasons == (said.removesuffix("."),)


def test_an_older_torch_compiles_without_kernels(gate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "LEAST_TORCH", (99, 0))
    (said,) = _said(gate)
    assert said == f"torch {torch.__version__} is older than 99.0: Inductor compiles without kernels."


def test_several_folders_and_a_folder_of_folders(gate: Path, tmp_path: Path) -> None:
    shutil.copytree(gate, tmp_path / "all" / "gate")
    model, x = Gated(), torch.randn(2, 8, 16)
    with torch.no_grad():
        for named in ([str(gate)], tmp_path / "all"):
            torch._dynamo.reset()
            torch.testing.assert_close(compiled(model, named)(x), model(x))
    assert placed() == [{"gate": 1}] * 2


# The package is installed where tests run: here nothing of it can be imported.
STRIPPED = """
class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("graph", "cutegen", "harness", "nodes", "tools", "knowledge"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Nothing())
"""


def model_of(folder: Path, kernel: Path, mode: str = "") -> Path:
    """A model's folder that is left with this region's kernel."""
    shutil.copytree(kernel, folder / "regions" / "gate")
    told = "{'gate': 'kept at 2 places'}"
    values = {"regions": "{'gate': []}", "parts": [""], "graphs": False, "mode": mode, "told": told, "gpu": ""}
    (folder / "model_fast.py").write_text(rendered("model_fast.py.j2", title="A model.", **values))
    return folder
