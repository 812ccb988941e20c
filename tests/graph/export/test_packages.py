"""Exports as other tools take them: each is built by plain PyTorch, and computes what eager PyTorch does."""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
import sys
from importlib import metadata as distributions
from pathlib import Path
from typing import Any

import pytest
import torch
from exported_runs import BACKWARD, FORWARD, GATED, record
from third_parties import kernelbench
from typer.testing import CliRunner

from graph.cli.main import app
from graph.packages.form import export
from graph.runs.record import RunRecord
from harness.nouns.errors import UserError
from harness.tasks.declaring import directed

MASKED = '''
"""A forward pass over what a mask keeps."""
from collections import namedtuple

import torch
from torch import nn

Kept = namedtuple("Kept", ["values", "count"])


class Model(nn.Module):
    """Its layers are a sequence's, and its scale is a number."""

    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(nn.Dropout(0.0), nn.Linear(width, width))

    def forward(self, x, mask, scale: float = 2.0):
        kept = self.layers(x) * mask * scale
        return Kept(kept, kept.sum(dim=1))


def get_inputs():
    return [torch.randn(6, 4).t().contiguous().t(), torch.rand(6, 4) > 0.5, 2.0]


def get_init_inputs():
    return [4]
'''
MASKED_KERNEL = """
using namespace cute;
void run(tvm::ffi::TensorView x, tvm::ffi::TensorView mask, double scale, tvm::ffi::TensorView w,
         tvm::ffi::TensorView b, tvm::ffi::TensorView y, tvm::ffi::TensorView sums) {
  auto data = [](tvm::ffi::TensorView const& t) { return static_cast<float*>(t.data_ptr()); };
  auto mX = make_tensor(data(x), make_layout(make_shape(6, 4), make_stride(x.stride(0), x.stride(1))));
  for (int m = 0; m < 6; ++m) {
    data(sums)[m] = 0;
    for (int n = 0; n < 4; ++n) {
      float acc = data(b)[n];
      for (int k = 0; k < 4; ++k) acc += mX(m, k) * data(w)[n * 4 + k];
      acc = static_cast<bool*>(mask.data_ptr())[m * 4 + n] ? acc * float(scale) : 0.0f;
      data(y)[m * 4 + n] = acc;
      data(sums)[m] += acc;
    }
  }
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""

LOOKED_UP = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(10, 4)

    def forward(self, places):
        return self.table(places) * 2


def get_inputs():
    return [torch.randint(0, 10, (6,))]


def get_init_inputs():
    return []
"""
LOOKED_UP_KERNEL = """
void run(tvm::ffi::TensorView places, tvm::ffi::TensorView table, tvm::ffi::TensorView y) {
  for (int m = 0; m < 6; ++m)
    for (int n = 0; n < 4; ++n)
      static_cast<float*>(y.data_ptr())[m * 4 + n] =
          2 * static_cast<float*>(table.data_ptr())[static_cast<int64_t*>(places.data_ptr())[m] * 4 + n];
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""


@pytest.fixture(scope="module")
def forward() -> RunRecord:
    return record(directed(GATED, "forward"), FORWARD)


@pytest.fixture(scope="module")
def backward() -> RunRecord:
    return record(GATED, BACKWARD)


@pytest.fixture(scope="module", autouse=True)
def extensions(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """PyTorch's builds go here."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path_factory.mktemp("extensions")))
        yield


@pytest.fixture(scope="module")
def single_file(forward: RunRecord, tmp_path_factory: pytest.TempPathFactory) -> str:
    (file,) = export(forward, "kernelbench", tmp_path_factory.mktemp("kernelbench"))
    return file.read_text()


def executed(text: str) -> dict[str, Any]:
    """As KernelBench does: in a dictionary, without a file or a name."""
    found: dict[str, Any] = {}
    exec(compile(text, "<string>", "exec"), found)
    return found


def like_eager(found: dict[str, Any], atol: float = 1e-6) -> Any:
    """The module, after it gave eager's results and gradients."""
    models = []
    for kind in ("Model", "ModelNew"):
        torch.manual_seed(3)
        models.append(found[kind](*found["get_init_inputs"]()))
    inputs = found["get_inputs"]()
    results = []
    for model in models:
        given = [each.clone().requires_grad_(each.is_floating_point()) if torch.is_tensor(each) else each
                 for each in inputs]  # fmt: skip
        outputs = model(*given)
        parts = outputs if isinstance(outputs, tuple) else (outputs,)
        wanted = [*[each for each in given if torch.is_tensor(each) and each.requires_grad], *model.parameters()]
        loss = sum((each * each).sum() for each in parts)
        results.append((*parts, *torch.autograd.grad(loss, wanted)))
    for eager, ours in zip(*results, strict=True):
        torch.testing.assert_close(ours, eager, atol=atol, rtol=1e-5)
    return models[1]


@pytest.mark.timeout(900)
def test_one_file_holds_all_that_a_kernel_needs(single_file: str) -> None:
    model = like_eager(executed(single_file))
    with pytest.raises(ValueError, match=r"x has shape \[3, 96\]; the kernel was made for \[64, 96\]"):
        model(torch.randn(3, 96))
    with pytest.raises(ValueError, match="x is Double; the kernel was made for Float"):
        model(torch.randn(64, 96, dtype=torch.float64))
    strange = torch.randn(96, 64).t()
    assert torch.equal(model(strange), model(strange.contiguous()))
    with torch.no_grad():
        assert torch.equal(torch.compile(model, fullgraph=True)(strange), model(strange))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_file_with_cute_numbers_and_a_mask(tmp_path: Path) -> None:
    (file,) = export(record(MASKED, MASKED_KERNEL), "kernelbench", tmp_path)
    found = executed(file.read_text())
    model = like_eager(found)
    x, mask, _ = found["get_inputs"]()
    assert type(model(x, mask, 2.0)) is found["Kept"]
    torch.testing.assert_close(model(x, mask.float(), 2.0), model(x, mask, 2.0))  # as KernelBench hands it over
    with pytest.raises(ValueError, match=r"the kernel was made for Model\(width=4\), not width=5"):
        found["ModelNew"](5)


@pytest.mark.timeout(900)
def test_an_index_beyond_its_table_is_refused_and_not_read(tmp_path: Path) -> None:
    (file,) = export(record(LOOKED_UP, LOOKED_UP_KERNEL), "kernelbench", tmp_path)
    model = like_eager(executed(file.read_text()))
    for strange in (10, 10**12, -1):
        with pytest.raises(ValueError, match="places has values below 0 or above 9: places that a table lacks"):
            model(torch.tensor([0, 9, strange, 3, 4, 5]))


def test_kernelbench_takes_it(
    single_file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its own loaders, static checks and comparison; the rest of its evaluator asks for CUDA."""
    evaluation, checker = kernelbench("eval"), kernelbench("kernel_static_checker")
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device=None: None)
    monkeypatch.setattr(torch.cuda, "manual_seed", lambda seed: None)
    source, context = directed(GATED, "forward"), {}  # type: ignore[var-annotated]
    original, get_init_inputs, get_inputs = evaluation.load_original_model_and_inputs(source, context)
    loaded = evaluation.load_custom_model(single_file, context, str(tmp_path))
    from_file, temporary = evaluation.load_custom_model_with_tempfile(single_file)
    Path(temporary.name).unlink()
    for custom in (loaded, from_file):
        evaluation.set_seed(42)
        reference = original(*get_init_inputs())
        evaluation.set_seed(42)
        ours = custom(*get_init_inputs())
        found = evaluation.run_and_check_correctness(
            reference, ours, get_inputs, metadata={}, num_correct_trials=3, device=torch.device("cpu")
        )
        assert found.correctness, capsys.readouterr().out
        assert ours(*get_inputs()).requires_grad
    _, errors, _ = checker.validate_kernel_static(single_file, backend="cuda", precision="fp32")
    assert errors == ["Missing __global__ kernel definition"]  # of a processor's


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_plain_pytorch_builds_the_extension(forward: RunRecord, tmp_path: Path) -> None:
    project, site = tmp_path / "project", tmp_path / "site"
    export(forward, "torch-extension", project)
    shutil.copytree(project, tmp_path / "elsewhere")
    kernel = tmp_path / "elsewhere" / "csrc" / "forward.cpp"
    kernel.write_text(f'#ifdef NDEBUG\n#error "judged with its assertions"\n#endif\n{kernel.read_text()}')
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-build-isolation", "--no-deps", "--target", str(site)]
    done = subprocess.run([*install, str(tmp_path / "elsewhere")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(str(site))
        module = importlib.import_module("cutegen_gated")
    model = like_eager(vars(module), atol=1e-4)
    with pytest.raises(RuntimeError, match="no gradients of their own"):
        torch.autograd.grad(model(torch.randn(64, 96)).sum(), [model.scale], create_graph=True)


@pytest.mark.timeout(900)
def test_hugging_faces_kernels_loads_the_folder(
    forward: RunRecord, backward: RunRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    if not distributions.packages_distributions().get("kernels"):  # a folder of that name is no package
        pytest.skip("the package kernels is not installed")
    kernels = importlib.import_module("kernels")
    source: dict[str, Any] = {}
    exec(directed(GATED, "forward"), source)
    layer = kernels.use_kernel_forward_from_hub("Gated")(source["Model"])
    training = kernels.Mode.TRAINING | kernels.Mode.TORCH_COMPILE
    for name, back in (("inference", None), ("training", backward)):
        folder = tmp_path / name
        export(forward, "hf-kernels", folder, back)
        (metadata,) = folder.glob("build/*/metadata.json")
        assert json.loads(metadata.read_text())["backend"] == {"type": "cpu"}
        found = kernels.get_local_kernel(folder).layers.ModelNew
        assert (found.has_backward, found.can_torch_compile) == (back is not None, True)
        mapping = {"Gated": {"cpu": kernels.LocalLayerRepository(folder, layer_name="ModelNew")}}
        torch.manual_seed(0)
        eager, ours = layer(96), layer(96)
        ours.load_state_dict(eager.state_dict())
        with kernels.use_kernel_mapping(mapping, inherit_mapping=False):
            ours = kernels.kernelize(ours, mode=kernels.Mode.INFERENCE, device="cpu")
            x = torch.randn(64, 96)
            torch.testing.assert_close(ours(x), eager(x))
            assert ours.forward.__func__ is found.forward
            if back is None:
                with pytest.raises(RuntimeError, match=r"no backward: kernelize with Mode\.INFERENCE"):
                    ours(x).sum().backward()
            trained = kernels.kernelize(ours, mode=training, device="cpu")
        assert (trained.forward.__func__ is found.forward) == (back is not None)
        for each in (eager, torch.compile(trained, fullgraph=True)):
            each(x).square().sum().backward()
        for mine, theirs in zip(trained.parameters(), eager.parameters(), strict=True):
            torch.testing.assert_close(mine.grad, theirs.grad, atol=1e-3, rtol=1e-4)


def test_a_task_that_imports_from_the_future_may_follow_other_lines(tmp_path: Path) -> None:
    """KernelBench puts two lines of its own before the text."""
    source = MASKED.replace("from collections", "from __future__ import annotations\n\nfrom collections", 1)
    (file,) = export(record(source.replace("def __init__(self, width)", "def __init__(self, width: Unknown)"),
                            MASKED_KERNEL), "kernelbench", tmp_path)  # fmt: skip
    text = file.read_text()
    reference, _, _ = text.partition("# What follows is the kernel's.")
    found = executed(f"import os\nos.environ['X'] = 'y'\n{reference}")
    assert found["Model"](4).layers[1].in_features == 4


def test_a_form_refuses_what_it_cannot_hold(forward: RunRecord, backward: RunRecord, tmp_path: Path) -> None:
    several = 'WORKLOADS = [{"columns": 96}, {"columns": 32}]\n'
    sized = directed(GATED, "forward").replace("get_init_inputs():\n    return [96]", "get_init_inputs(columns=96):\n    return [columns]")  # fmt: skip # noqa: E501
    sized = sized.replace("get_inputs():\n    return [torch.randn(64, 96)]", "get_inputs(columns=96):\n    return [torch.randn(64, columns)]")  # fmt: skip # noqa: E501
    more = FORWARD.replace("{\n  if", '{\n  tvm::ffi::Function::GetGlobal("any");\n  if', 1)
    batched = MASKED.replace("nn.Dropout(0.0)", "nn.BatchNorm1d(width)")
    refused = [
        (record(sized + several, FORWARD), None, "for 2 workloads"),
        (record(directed(GATED, "forward"), more), None, "uses Function of TVM-FFI"),
        (record(batched, MASKED_KERNEL), None, "in training mode, in which KernelBench calls a module"),
        (backward, None, "computes backward, and this form holds a forward"),
        (forward, backward, "KernelBench evaluates a forward alone"),
        (forward.model_copy(update={"best": None}), None, "has no kernel"),
    ]
    for run, back, said in refused:
        with pytest.raises(UserError, match=said):
            export(run, "kernelbench", tmp_path, back)
    with pytest.raises(UserError, match="robust-kbench evaluates kernels for GPUs alone"):
        export(forward, "robust-kbench", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_command_writes_a_runs_kernel(forward: RunRecord, tmp_path: Path) -> None:
    run, out = tmp_path / "run", tmp_path / "out"
    run.mkdir()
    (run / "record.json").write_text(forward.model_dump_json())
    for form, first in (
        ("kernelbench", "model_new.py"),
        ("torch-extension", "pyproject.toml"),
        ("folder", "kernel.cu"),
    ):
        done = CliRunner().invoke(app, ["export", str(run), "--form", form, "-o", str(out / form), "--json"])
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["files"][0] == str(out / form / first)
    done = CliRunner().invoke(app, ["export", str(run), "--form", "robust-kbench", "-o", str(out / "robust")])
    assert done.exit_code == 2
    assert "robust-kbench evaluates kernels for GPUs alone" in done.stderr
    (run / "record.json").write_text(forward.model_copy(update={"best": None}).model_dump_json())
    done = CliRunner().invoke(app, ["export", str(run), "--form", "hf-kernels", "-o", str(out / "hub")])
    assert done.exit_code == 2
    assert done.stderr.startswith("cutegen: The run on ")  # and nothing before it of a build that is none
