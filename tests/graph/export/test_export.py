"""Drop-ins, imported where nothing of ours is: a clean process with its own cache and no environment to lean on."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from drop_ins import candidate, described, exported
from hypothesis import given
from hypothesis import strategies as st
from report_records import softsign_task

from graph.export.drop_in import export_drop_in, text_literal
from graph.export.runtime.reference import require_same_arguments, run_reference
from harness.building.toolchain import cuda_compiler
from harness.nouns.errors import MachineError
from harness.nouns.task import Signature, Task, TensorSpec, Workload

SCALED = '''from __future__ import annotations

import torch
from torch import nn


class Model(nn.Module):
    """Its docstring holds quotes, \'\'\' too, and a \\\\ backslash."""

    def __init__(self, width: int, slope: float = 0.5, sizes: tuple[int, ...] = (1, 2)):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, 8), nn.ReLU(), nn.Dropout(slope))
        self.register_buffer("shift", torch.linspace(0, 1, 8), persistent=False)

    def forward(self, x: torch.Tensor, scale: float = 2.0, mode: str = "plain"):
        y = self.layers(x) + self.shift
        return y * scale, y.sum(dim=1)


def get_inputs():
    return [torch.randn(4, 6).t(), 2.0]


def get_init_inputs():
    return [4]
'''

SCALED_KERNEL = """
// relu(x w' + b) + shift, scaled and summed by rows
using namespace cute;

void run(tvm::ffi::TensorView x, double scale, tvm::ffi::TensorView w, tvm::ffi::TensorView b,
         tvm::ffi::TensorView shift, tvm::ffi::TensorView y, tvm::ffi::TensorView z) {
  auto floats = [](tvm::ffi::TensorView const& t) { return static_cast<float*>(t.data_ptr()); };
  auto mX = make_tensor(floats(x), make_layout(make_shape(Int<6>{}, Int<4>{}), make_stride(Int<1>{}, Int<6>{})));
  auto mW = make_tensor(floats(w), make_layout(make_shape(Int<8>{}, Int<4>{}), GenRowMajor{}));  // (N, K)
  auto mY = make_tensor(floats(y), make_layout(make_shape(Int<6>{}, Int<8>{}), GenRowMajor{}));  // (M, N)
  for (int m = 0; m < 6; ++m) {
    float sum = 0;
    for (int n = 0; n < 8; ++n) {
      float acc = floats(b)[n];
      for (int k = 0; k < 4; ++k) acc += mX(m, k) * mW(n, k);
      acc = std::max(acc, 0.f) + floats(shift)[n];
      sum += acc;
      mY(m, n) = acc * static_cast<float>(scale);
    }
    floats(z)[m] = sum;
  }
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""

SOFTSIGN = """import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x / (1 + x.abs())


def get_inputs():
    return [torch.randn(1, 16).expand(5, 16)]
"""

SOFTSIGN_KERNEL = """
using namespace cute;

void run(tvm::ffi::TensorView x, tvm::ffi::TensorView y) {
  auto mX = make_tensor(static_cast<float const*>(x.data_ptr()),
                        make_layout(make_shape(5, 16), make_stride(x.stride(0), x.stride(1))));
  auto mY = make_tensor(static_cast<float*>(y.data_ptr()), make_layout(make_shape(5, 16), GenRowMajor{}));
#pragma omp parallel for
  for (int m = 0; m < 5; ++m)
    for (int n = 0; n < 16; ++n) mY(m, n) = mX(m, n) / (1 + std::abs(mX(m, n)));
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""

NESTED = """from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import NamedTuple

import torch


@dataclass
class Found(OrderedDict):
    loss: torch.Tensor | None = None
    logits: torch.Tensor | None = None
    rest: tuple | None = None


class Pair(NamedTuple):
    first: torch.Tensor
    count: int


class Model(torch.nn.Module):
    def forward(self, x, state, mask=None, *, batch, mode="plain"):
        y = x * batch["scale"] + state[1][0]
        return Found(logits=y, rest=(Pair(state[0] + 1, 2), [y * 2], {"none": None, 3: x.max(1)}))


def get_inputs():
    state = (torch.rand(2), [torch.rand(3, 4), None])
    return {"x": torch.rand(3, 4), "state": state, "batch": {"scale": 2.5, "text": "words"}}
"""

NESTED_KERNEL = """
void run(tvm::ffi::TensorView x, tvm::ffi::TensorView s, tvm::ffi::TensorView t, double scale,
         tvm::ffi::TensorView y, tvm::ffi::TensorView first, tvm::ffi::TensorView twice, tvm::ffi::TensorView values,
         tvm::ffi::TensorView indices) {
  auto floats = [](tvm::ffi::TensorView const& t) { return static_cast<float*>(t.data_ptr()); };
  for (int i = 0; i < 2; ++i) floats(first)[i] = floats(s)[i] + 1;
  for (int i = 0; i < 12; ++i) floats(twice)[i] = 2 * (floats(y)[i] = floats(x)[i] * float(scale) + floats(t)[i]);
  for (int m = 0; m < 3; ++m) {
    int best = 0;
    for (int n = 1; n < 4; ++n) best = floats(x)[4 * m + n] > floats(x)[4 * m + best] ? n : best;
    floats(values)[m] = floats(x)[4 * m + best];
    static_cast<int64_t*>(indices.data_ptr())[m] = best;
  }
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""

NESTED_DRIVER = """
from torch.utils._pytree import tree_map
reference, ours = model_new.reference.Model(), model_new.ModelNew()
given = model_new.reference.get_inputs()
wanted, got = reference(**given), ours(**given)
kinds = lambda found: [type(found), type(found.rest), type(found.rest[0]), type(found.rest[1]), type(found.rest[2][3])]
tensors = lambda found: [found.logits, found.rest[0].first, *found.rest[1], *found.rest[2][3]]
told["same"] = close(tensors(got), tensors(wanted))
told["kinds"] = kinds(got) == kinds(wanted)
told["rest"] = [got.loss, got.rest[0].count, got.rest[2]["none"], list(got.rest[2])]
told["positional"] = close(tensors(ours(given["x"], given["state"], batch=given["batch"])), tensors(wanted))
told["signature"] = str(inspect.signature(ours.forward))
compiled = torch.compile(ours, fullgraph=True, backend="eager")
tell("compiled", lambda: close(tensors(compiled(**given)), tensors(wanted)))
tell("longer", lambda: ours(**given | {"state": (*given["state"], 1)}))
tell("mask", lambda: ours(**given, mask=given["x"] > 1))
tell("inner", lambda: ours(**given | {"state": (given["state"][0], [given["state"][1][0], 5])}))
tell("text", lambda: ours(**given | {"batch": {"scale": 2.5, "text": "100%"}}))
tell("keys", lambda: ours(**given | {"batch": {"scale": 2.5}}))
ours.kernel_fallback = "reference"
double = given | {"x": given["x"].double()}
tell("elsewhere", lambda: close(tensors(ours(**double)), tensors(reference(**double))))
"""

# What every process begins with. `tell` runs a call and keeps its value, or the error's kind and text.
PROLOGUE = """
import importlib, inspect, json, os, sys
import torch

def close(got, expected):
    pairs = [(got, expected)] if isinstance(expected, torch.Tensor) else list(zip(got, expected, strict=True))
    return all(a.stride() == b.stride() and torch.allclose(a, b, rtol=1e-5, atol=1e-6) for a, b in pairs)

def drive(folder, driver):
    told = {{}}
    def tell(name, call):
        try:
            told[name] = call()
        except Exception as error:
            told[name] = f"{{type(error).__name__}}: {{error}}"
    sys.modules.pop("model_new", None)
    sys.path.insert(0, folder)
    import model_new
    exec(driver, globals() | {{"told": told, "tell": tell, "model_new": model_new}})
    sys.path.remove(folder)
    return told

all_told = {{name: drive(*each) for name, each in {drivers!r}.items()}}
loaded = {{name.split(".")[0] for name in sys.modules}}
all_told["ours"] = sorted({{"graph", "nodes", "tools", "knowledge", "harness"}} & loaded)
print(json.dumps(all_told))
"""

SCALED_DRIVER = """
torch.manual_seed(1)
reference, ours = model_new.reference.Model(4).eval(), model_new.ModelNew(4)
x, scale = model_new.reference.get_inputs()
told["keys"] = list(ours.state_dict()) == list(reference.state_dict())
told["loaded"] = str(ours.load_state_dict(reference.state_dict()))
told["forward"] = list(inspect.signature(ours.forward).parameters)
told["needs_grad"] = all(p.requires_grad for p in ours.parameters())
spread = torch.empty(13, 8)[1::2, 1:5]
spread.copy_(x)
with torch.no_grad():
    tell("training", lambda: ours(x, scale))
    ours.eval()
    expected = reference(x, scale)
    tell("same", lambda: close(ours(x, scale), expected))
    tell("default", lambda: close(ours(x), expected))
    tell("keyword", lambda: close(ours(x, scale=3.0), reference(x, scale=3.0)))
    tell("contiguous", lambda: close(ours(x.contiguous()), expected))
    tell("spread", lambda: close(ours(spread), expected))
    compiled = torch.compile(ours, fullgraph=True)
    tell("compiled", lambda: close(compiled(x, scale), expected))
    # Without the code generator, which would compile a library for each of these sums and products.
    inside = torch.compile(lambda t: [part * 2 for part in ours(t + 1)], fullgraph=True, backend="aot_eager")
    tell("inside", lambda: close(inside(x), [part * 2 for part in reference(x + 1)]))
    tell("shape", lambda: ours(x[:3], scale))
    tell("dtype", lambda: ours(x.double(), scale))
    tell("mode", lambda: ours(x, scale, mode="other"))
    values = (x, scale, *[value.detach() for value in (*ours.parameters(), ours.shift)])
    tell("opcheck", lambda: torch.library.opcheck(model_new.KERNEL.operator, values))
def sound():
    wanting = tuple(value.detach().requires_grad_() if isinstance(value, torch.Tensor) else value for value in values)
    return torch.library.opcheck(model_new.KERNEL.operator, wanting)

tell("opcheck_gradients", sound)
def trained(model):
    model.zero_grad()
    y, z = model(x, scale)
    (y.square().sum() + z.sum()).backward()
    return [each.grad for each in model.parameters()]

tell("gradient", lambda: close(trained(ours), trained(reference)))
tell("width", lambda: model_new.ModelNew(5))
tell("slope", lambda: model_new.ModelNew(4, slope=0.1))
tell("same_values", lambda: str(type(model_new.ModelNew(width=4, sizes=[1, 2]))))
with torch.inference_mode():
    tell("half", lambda: ours.half()(x, scale))
"""

SOFTSIGN_DRIVER = """
ours = model_new.ModelNew()
row = torch.randn(1, 16)
x = row.expand(5, 16)
tell("same", lambda: close(ours(x), row.expand(5, 16) / (1 + row.abs())))
tell("repeated", lambda: close(ours(x.contiguous()), x / (1 + x.abs())))
tell("different", lambda: ours(torch.randn(5, 16)))
def trained(forward):
    given = row.clone().requires_grad_()
    forward(given.expand(5, 16)).sum().backward()
    return given.grad

tell("gradient", lambda: close(trained(ours), trained(lambda x: x / (1 + x.abs()))))
"""

BROKEN_DRIVER = """
ours, x = model_new.ModelNew(), torch.randn(1, 16).expand(5, 16)
model_new.KERNEL.library.prelude = ""
os.environ["CXX"] = "no-such-compiler"
tell("no_compiler", lambda: ours(x))
del os.environ["CXX"]
tell("broken", lambda: ours(x))
"""


def drive(cache: Path, drivers: dict[str, tuple[str, str]]) -> dict[str, Any]:
    """Run drivers in a process that knows their folders, the interpreter's packages and a PATH."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(cache), "CUTEGEN_CACHE": str(cache)}
    environment["TORCHINDUCTOR_VEC_ISA_OK"] = "1"  # as conftest.py has it
    ended = subprocess.run(
        [sys.executable, "-I", "-c", PROLOGUE.format(drivers=drivers)], cwd=cache, env=environment,
        capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    told: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    assert told.pop("ours") == []
    return told


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What all drivers told: one process, in which each drop-in is imported where nothing of ours is."""
    folder = tmp_path_factory.mktemp("drop_ins")
    given = {
        "scaled": (SCALED, SCALED_KERNEL, SCALED_DRIVER),
        "softsign": (SOFTSIGN, SOFTSIGN_KERNEL, SOFTSIGN_DRIVER),
        "nested": (NESTED, NESTED_KERNEL, NESTED_DRIVER),
        "sized": (SIZED, SIZED_KERNEL, SIZED_DRIVER),
        "tied": (TIED, None, TIED_DRIVER),
        "broken": (SOFTSIGN, None, BROKEN_DRIVER),
    }
    drivers = {
        name: (str(exported(folder / name, source, kernel or "int broken = ;", built=bool(kernel))), driver)
        for name, (source, kernel, driver) in given.items()
    }
    (folder / "cache").mkdir()
    found = drive(folder / "cache", drivers)
    found["broken"]["kept"] = sorted(file.suffix for file in (folder / "cache" / "drop_ins").iterdir())
    return found


@pytest.fixture(scope="module")
def scaled(told: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return told["scaled"]


@pytest.mark.parametrize(
    "way", ["same", "default", "keyword", "contiguous", "spread", "compiled", "inside", "gradient"]
)
def test_it_computes_what_the_reference_computes(scaled: dict[str, Any], way: str) -> None:
    assert scaled[way] is True


def test_it_takes_the_references_place(scaled: dict[str, Any]) -> None:
    assert scaled["keys"] is True
    assert scaled["loaded"] == "<All keys matched successfully>"
    assert scaled["forward"] == ["x", "scale", "mode"]
    assert scaled["needs_grad"] is True
    assert "ModelNew" in scaled["same_values"]


def test_torch_finds_the_operator_sound(scaled: dict[str, Any]) -> None:
    assert set(scaled["opcheck"].values()) == set(scaled["opcheck_gradients"].values()) == {"SUCCESS"}


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("shape", "ValueError: x has shape (3, 4); the kernel was made for (6, 4)"),
        ("dtype", "ValueError: x is torch.float64; the kernel was made for torch.float32"),
        ("half", "ValueError: layers.0.weight is torch.float16; the kernel was made for torch.float32"),
        ("mode", "ValueError: the kernel was made for mode='plain', not 'other'"),
        ("width", "ValueError: the kernel was made for Model(width=4), not width=5"),
        ("slope", "ValueError: the kernel was made for Model(slope=0.5), not slope=0.1"),
        ("training", "RuntimeError: the kernel computes what the module does in evaluation mode: call .eval() first"),
    ],
)
def test_what_it_was_not_made_for_is_refused_in_a_sentence(scaled: dict[str, Any], what: str, said: str) -> None:
    assert scaled[what] == said


def test_an_expanded_input_stays_expanded(told: dict[str, dict[str, Any]]) -> None:
    found = told["softsign"]
    assert (found["same"], found["repeated"]) == (True, True)
    assert "must repeat its values" in found["different"]
    assert found["gradient"] is True


def test_inputs_and_results_are_put_together_as_the_references_are(told: dict[str, dict[str, Any]]) -> None:
    found = told["nested"]
    assert found["rest"] == [None, 2, None, ["none", 3]]
    assert {name for name, value in found.items() if value is True} >= {"same", "kinds", "positional", "compiled"}
    assert found["signature"] == "(x, state, mask=None, *, batch, mode='plain') -> 'Any'"
    assert found["longer"] == "ValueError: the kernel was made for state of 2 parts"
    assert found["mask"].startswith("ValueError: the kernel was made for mask=None, not tensor(")
    assert found["inner"] == "ValueError: the kernel was made for state[1][1]=None, not 5"
    assert found["text"] == "ValueError: the kernel was made for batch[\"text\"]='words', not '100%'"
    assert found["keys"] == 'ValueError: the kernel was made for batch with the keys ("scale", "text")'
    assert found["elsewhere"] is True


def test_a_build_that_fails_says_why(told: dict[str, dict[str, Any]]) -> None:
    assert "no-such-compiler was not found: install g++" in told["broken"]["no_compiler"]
    assert "kernel.cu:1:14: error" in told["broken"]["broken"]
    assert told["broken"]["kept"] == [".lock"]


def test_a_module_whose_forward_is_inherited_takes_inputs_by_the_tasks_names() -> None:
    source = SOFTSIGN.replace("class Model", "class Base") + "\n\nclass Model(Base):\n    pass\n"
    assert "def forward(self, x) -> Any:" in export_drop_in(described(source), candidate(SOFTSIGN_KERNEL))


@pytest.mark.parametrize(
    ("parameters", "taken"),
    [
        ("x, dim=-1, mode=None", "x, dim=-1, mode=None"),
        ("x, /, keep: bool = True", "x, keep=True"),
        ("x, text='\"{x}%r'", "x, text='\"{x}%r'"),
        ("x, dim=-DIM", "x"),
        ("x, dim=DIM", "x"),
        ("x, sizes=(1, 2)", "x"),
        ("x, y", "x"),
        ("x, *rest", "x"),
        ("x, **rest", "x"),
        ("x, *, dim=1", "x, *, dim=1"),
        ("x, *, dim", "x"),
        ("*, x", "x"),
        ("", "x"),
    ],
)
def test_the_forward_keeps_its_parameters_where_they_can_be_told(parameters: str, taken: str) -> None:
    source = f"class Other:\n    def forward(self, z): ...\n\nclass Model:\n    def forward(self, {parameters}): ...\n"
    text = export_drop_in(softsign_task().model_copy(update={"source": source}), candidate("// a kernel"))
    ast.parse(text)
    assert f"def forward(self, {taken}) -> Any:" in text


def test_several_workloads_are_told_apart_by_their_shapes() -> None:
    def workload(rows: int) -> Workload:
        x, y = (TensorSpec(name=name, shape=(rows, 2), strides=(2, 1), dtype="float32") for name in ("x", "output"))
        return Workload(name=str(rows), signature=Signature(inputs=(x,), outputs=(y,)), flops=1, bytes_moved=1)

    task = Task(name="t", source=SOFTSIGN, workloads=(workload(3), workload(4)), op_class="elementwise")
    text = export_drop_in(task, candidate("// a kernel"))
    assert text.count("        Workload(\n") == 2
    assert 'Tensor("x", (4, 2), (2, 1), torch.float32),' in text


def test_names_cannot_end_the_docstring() -> None:
    task = described(SOFTSIGN).model_copy(update={"name": 'a """ quoted\n\\name'})
    text = export_drop_in(task, candidate("// a kernel").model_copy(update={"author": 'x:"""\\'}))
    assert ast.get_docstring(ast.parse(text))


TIED_DRIVER = """
ours = model_new.ModelNew()
def untied():
    ours.head.weight = torch.nn.Parameter(ours.embed.weight.detach().clone())
    return ours(torch.arange(6))
tell("keys", lambda: list(ours.state_dict()))
tell("one", lambda: ours.head.weight is ours.embed.weight)
tell("untied", untied)
"""


TIED = """import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = torch.nn.Embedding(6, 4), torch.nn.Linear(4, 6, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, index):
        return self.head(self.embed(index))


def get_inputs():
    return [torch.arange(6)]
"""


def test_a_drop_in_keeps_what_is_tied_and_refuses_what_no_longer_is(told: dict[str, dict[str, Any]]) -> None:
    assert told["tied"] == {
        "keys": ["embed.weight", "head.weight"],
        "one": True,
        "untied": "ValueError: the kernel was made for head.weight tied to embed.weight: one tensor",
    }


SIZED = """import torch


class Model(torch.nn.Module):
    def forward(self, x, dim: int, scale: float):
        return x.sum(dim) * scale


def get_inputs():
    return [torch.randn(40, 16), 1, 2.0]
"""

SIZED_KERNEL = """
void run(tvm::ffi::TensorView x, int64_t, double scale, tvm::ffi::TensorView y) {
  auto const* from = static_cast<float const*>(__builtin_assume_aligned(x.data_ptr(), 64));
  if (reinterpret_cast<uintptr_t>(from) % 64) TVM_FFI_THROW(ValueError) << "not aligned";
  for (int i = 0; i < 40; ++i) {
    float sum = 0;
    for (int j = 0; j < 16; ++j) sum += from[16 * i + j];
    static_cast<float*>(y.data_ptr())[i] = sum * static_cast<float>(scale);
  }
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""

SIZED_DRIVER = """
ours, x = model_new.ModelNew(), torch.randn(40, 16)
moved = torch.randn(40 * 16 + 1)[1:].view(40, 16)
with torch.no_grad():
    tell("same", lambda: close(ours(x, 1, 3.0), x.sum(1) * 3))
    tell("unaligned", lambda: close(ours(moved, 1, 3.0), moved.sum(1) * 3))
    tell("dim", lambda: ours(x, 0, 3.0))
told["moved"] = moved.data_ptr() % 64
"""


def test_a_number_that_the_kernel_may_take_for_fixed_is_checked_and_what_is_not_aligned_copied(
    told: dict[str, dict[str, Any]],
) -> None:
    assert told["sized"] == {
        "same": True,
        "unaligned": True,
        "dim": "ValueError: the kernel was made for dim=1, not 0",
        "moved": 4,
    }


@given(st.text(alphabet=st.sampled_from("ab'\"\\\n\t{}%é"), max_size=30))
def test_the_references_text_survives(text: str) -> None:
    assert ast.literal_eval(text_literal(text)) == text


def test_a_cuda_drop_in_names_no_folder_and_no_architecture_of_this_machine() -> None:
    try:
        cuda_compiler()
    except MachineError as missing:
        pytest.skip(str(missing))
    text = export_drop_in(described(SOFTSIGN), candidate("// a kernel", "cuda"))
    given = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.keyword) and node.arg == "flags")
    words = ast.unparse(next(given).value)
    assert "--expt-relaxed-constexpr" in words
    assert "sm_" not in words
    assert str(Path(sys.prefix)) not in text
    assert str(Path(shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc").parent) not in words


OF_TWO_SIZES = """
class Model:
    def __init__(self, width, slope=0.5): ...

def get_inputs(rows=1): ...

def get_init_inputs(width=4):
    return [width]

WORKLOADS = [{"name": "wide", "width": 8}, {"width": 16, "rows": 3}]
"""


def test_workloads_say_which_modules_it_was_made_for() -> None:
    reference = run_reference(OF_TWO_SIZES, "sized", "sized.py")
    for width in (8, 16):
        require_same_arguments(reference, (width,), {})
    for arguments, said in (((4,), "Model(width=8), not width=4"), ((16, 0.1), "Model(slope=0.5), not slope=0.1")):
        with pytest.raises(ValueError, match=re.escape(said)):
            require_same_arguments(reference, arguments, {})
