"""Operators of drop-ins: named by what they compute, and loaded beside others in any order."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from drop_ins import candidate, described, exported, loaded
from torch._inductor.utils import run_and_get_code

from graph.export.drop_in import export_drop_in

TASK = """import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x * FACTOR, x + FACTOR


def get_inputs():
    return [torch.randn(4, 16)]
"""
KERNEL = """
void run(tvm::ffi::TensorView x, tvm::ffi::TensorView y, tvm::ffi::TensorView z) {
  auto floats = [](tvm::ffi::TensorView const& t) { return static_cast<float*>(t.data_ptr()); };
  for (int i = 0; i < 64; ++i) floats(y)[i] = floats(x)[i] * FACTOR, floats(z)[i] = floats(x)[i] + FACTOR;
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""
IN_A_PROCESS = """
import importlib.util, json, sys
import torch
from torch._dynamo.utils import counters

def load(folder):
    spec = importlib.util.spec_from_file_location(folder.replace("/", "_"), f"{folder}/model_new.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

order = sys.argv[1:]
modules = {folder: load(folder) for folder in order}
names = {folder: module.KERNEL.operator._opname for folder, module in modules.items()}
right = {}
for folder, module in modules.items():
    model, x = module.ModelNew(), torch.ones(4, 16)
    torch._dynamo.reset()
    compiled = torch.compile(lambda t: [each * 2 for each in model(t)], fullgraph=True)
    with torch.no_grad():
        right[folder] = [float(each[0, 0]) for each in compiled(x)]
print(json.dumps({"names": names, "right": right, "hits": counters["inductor"]["fxgraph_cache_hit"]}))
"""


def made(folder: Path, factor: int) -> Path:
    return exported(folder, TASK.replace("FACTOR", str(factor)), KERNEL.replace("FACTOR", str(factor)))


def in_a_process(cache: Path, *folders: Path) -> dict[str, Any]:
    environment = os.environ | {"TORCHINDUCTOR_CACHE_DIR": str(cache), "CUTEGEN_CACHE": str(cache)}
    ended = subprocess.run(
        [sys.executable, "-c", IN_A_PROCESS, *map(str, folders)], env=environment, capture_output=True, text=True,
        timeout=240,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    told: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return told


def test_a_warm_cache_calls_the_right_kernel_whatever_was_loaded_first(tmp_path: Path) -> None:
    three, seven = made(tmp_path / "three", 3), made(tmp_path / "seven", 7)
    again = shutil.copytree(three, tmp_path / "again")
    cold = in_a_process(tmp_path / "cache", three, seven, again)
    warm = in_a_process(tmp_path / "cache", again, seven, three)
    assert cold["names"] == warm["names"]
    assert cold["names"][str(three)] == cold["names"][str(again)] != cold["names"][str(seven)]
    assert cold["right"] == warm["right"] == {str(three): [6, 8], str(again): [6, 8], str(seven): [14, 16]}
    assert warm["hits"] == 3


def test_the_name_follows_from_all_that_the_operator_computes() -> None:
    def name(source: str, kernel: str) -> str:
        found = re.search(r'name="(k_[0-9a-f]{16})",', export_drop_in(described(source), candidate(kernel)))
        assert found is not None
        return found[1]

    task = TASK.replace("FACTOR", "2")
    names = [
        name(task, "// a kernel"),
        name(task, "// another kernel"),
        name(task.replace("(4, 16)", "(4, 8)"), "// a kernel"),
        name(task.replace("x * 2", "x.mul(2)"), "// a kernel"),  # the same results, and its own gradients
    ]
    assert len(set(names)) == 4
    assert names[0] == name(task, "// a kernel")


@pytest.fixture(scope="module")
def drop_in(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return loaded(made(tmp_path_factory.mktemp("operator"), 5))


def test_a_second_copy_has_the_first_ones_operator(drop_in: Any) -> None:
    copy = loaded(Path(drop_in.__file__).parent)
    assert copy.KERNEL is not drop_in.KERNEL
    assert copy.KERNEL.operator is drop_in.KERNEL.operator
    assert {torch.Tag.pt2_compliant_tag, torch.Tag.needs_exact_strides} <= set(copy.KERNEL.operator.tags)


def test_a_copy_does_the_work_of_one_whose_folder_is_gone(tmp_path: Path) -> None:
    first = made(tmp_path / "first", 11)
    second = shutil.copytree(first, tmp_path / "second")
    operator = loaded(first).KERNEL.operator
    shutil.rmtree(first)
    loaded(second)
    assert torch.equal(operator(torch.ones(4, 16))[0], torch.full((4, 16), 11.0))


@pytest.mark.skipif(not hasattr(torch.Tag, "out"), reason="this torch lowers no operators to their out overloads")
def test_results_are_written_where_they_are_asked_for(drop_in: Any) -> None:
    packet = getattr(torch.ops.cutegen, drop_in.KERNEL.operator._opname)
    x, y, turned = torch.randn(4, 16), torch.empty(4, 16), torch.empty(16, 4).t()
    assert packet.out(x, out0=y, out1=turned)[1].data_ptr() == turned.data_ptr()
    assert torch.equal(y, x * 5) and torch.equal(turned, x + 5)
    model = drop_in.ModelNew()
    compiled = torch.compile(lambda t: [each.sin() for each in model(t.cos())], fullgraph=True)
    with torch.no_grad():
        _, code = run_and_get_code(compiled, x)
    assert f"{packet.__name__}.out(" in "".join(code)
