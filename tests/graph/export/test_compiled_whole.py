"""A model that was accepted compiled: what `model_fast.py` hands out then, and its life."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from drop_ins import exported
from test_compile_backend import KERNEL, STRIPPED, TASK, Gated, model_of
from torch import nn

from graph.export.live_drop_in import load_drop_in
from graph.model.assembly import FILE
from graph.model.state import ModelInput
from graph.model.workbench import LocalWorkbench
from harness.wire.deadline import Deadline
from nodes.settings import Settings

SOURCE = """
import torch
from torch import nn
from torch.nn import functional as F


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(16, 32), nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        return x + self.down(F.silu(self.gate(x)) * self.up(x))


class Model(nn.Sequential):
    def __init__(self):
        super().__init__(Gated(), Gated())


def get_inputs():
    return [torch.randn(2, 8, 16)]
"""
IN_A_PROCESS = """
import importlib.util, json, sys
import torch
from torch import nn
import torch.nn.functional as F
from torch._dynamo.utils import counters

folder, *save = sys.argv[1:]
spec = importlib.util.spec_from_file_location("model_fast", f"{folder}/model_fast.py")
file = importlib.util.module_from_spec(spec)
spec.loader.exec_module(file)

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.up = nn.Linear(16, 32), nn.Linear(16, 32)

    def forward(self, x):
        return F.silu(self.gate(x)) * self.up(x)

model, x = Model(), torch.randn(2, 8, 16)
fast = file.accelerate(model, (x,))
with torch.no_grad():
    added = float((fast(x) - model(x)).mean())
hits = counters["inductor"]["fxgraph_cache_hit"]
if save:
    fast.kernels.save_artifact()
print(json.dumps({"added": round(added, 4), "placed": dict(fast.kernels.placed), "regions": fast.kernels.regions,
                  "hits": hits}))
"""


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The gate's kernel, right and off by one."""
    place = tmp_path_factory.mktemp("kernels")
    texts = {"right": KERNEL.replace("ADDED", "0"), "shifted": KERNEL.replace("ADDED", "1")}
    return {name: exported(place / name / "gate", TASK, text) for name, text in texts.items()}


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch.manual_seed(0)
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def file(kernels: dict[str, Path], tmp_path: Path) -> Any:
    return load_drop_in(model_of(tmp_path / "model", kernels["right"], "default") / FILE)


def test_it_computes_over_the_module_s_weights_and_says_what_became_of_the_kernels(file: Any) -> None:
    model, x = nn.Sequential(Gated(), Gated()).eval(), torch.randn(2, 8, 16)
    fast = file.accelerate(model, (x,))
    with torch.no_grad():
        torch.testing.assert_close(fast(x), model(x))
        assert dict(fast.kernels.placed) == {"gate": 2}
        assert fast.kernels.regions == {"gate": "kept at 2 places"}
        assert list(fast.state_dict()) == list(model.state_dict())
        model.load_state_dict({name: value + 0.1 for name, value in model.state_dict().items()})
        torch.testing.assert_close(fast(x), model(x))
        fast[0].gate.weight = nn.Parameter(torch.randn(32, 16))
        model[0].gate.weight = fast[0].gate.weight
        torch.testing.assert_close(fast(x), model(x))
    assert not fast.kernels.fallbacks


def test_a_copy_compiles_anew_over_weights_of_its_own(file: Any) -> None:
    model, x = nn.Sequential(Gated(), Gated()).eval(), torch.randn(2, 8, 16)
    fast = file.accelerate(model, (x,))
    other = copy.deepcopy(fast)
    with torch.no_grad():
        for each in other.parameters():
            each.mul_(2)
        torch.testing.assert_close(fast(x), model(x))
        torch.testing.assert_close(other(x), _doubled(model)(x))
    assert dict(other.kernels.placed) == {"gate": 2}


def _doubled(model: nn.Module) -> nn.Module:
    made = copy.deepcopy(model)
    with torch.no_grad():
        for each in made.parameters():
            each.mul_(2)
    return made


def test_other_types_sizes_and_casts_are_inductor_s_and_training_has_its_gradients(file: Any) -> None:
    model, x = nn.Sequential(Gated()).eval(), torch.randn(2, 8, 16)
    fast = file.accelerate(model, (x,))
    wanted = torch.autograd.grad(model(x).square().sum(), [*model.parameters()])
    found = torch.autograd.grad(fast(x).square().sum(), [*fast.parameters()])
    torch.testing.assert_close(found, wanted)
    with torch.no_grad():
        torch.testing.assert_close(fast(x[:1]), model(x[:1]))
        with torch.autocast("cpu"):
            torch.testing.assert_close(fast(x), model(x), atol=2e-2, rtol=2e-2)
        fast.double()  # the module's own parameters are moved with it
        torch.testing.assert_close(fast(x.double()), model.double()(x.double()))
    assert not fast.kernels.fallbacks


def test_where_it_fails_the_module_s_own_forward_goes_on_and_a_bad_call_is_the_caller_s(
    file: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, x = nn.Sequential(Gated(), Gated()).eval(), torch.randn(2, 8, 16)
    fast = file.accelerate(model, (x,))
    with torch.no_grad(), pytest.raises(RuntimeError, match="normalized_shape"):
        fast(torch.randn(2, 8, 5))
    assert not fast.kernels.failed
    broken = sys.modules[type(fast.forward).__module__].backend

    def refuse(*_: Any, **__: Any) -> Any:
        raise RuntimeError("no compiler")

    monkeypatch.setattr(broken, "compile_graph", refuse)
    torch._dynamo.reset()
    with torch.no_grad(), pytest.warns(UserWarning, match="own forward takes a call: compiled it fails"):
        torch.testing.assert_close(fast(x), model(x))
    with torch.no_grad(), pytest.warns(UserWarning, match="it has failed before"):
        torch.testing.assert_close(fast(x), model(x))
    assert sum(fast.kernels.fallbacks.values()) == 2


def in_a_process(folder: Path, cache: Path, *save: str) -> Any:
    """What a fresh process tells that knows nothing of cutegen, with caches of its own."""
    environment = os.environ | {"TORCHINDUCTOR_CACHE_DIR": str(cache), "PYTHONPATH": ""}
    line = [sys.executable, "-c", f"import sys{STRIPPED}{IN_A_PROCESS}", str(folder), *save]
    ended = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=280, cwd=cache.parent)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])


@pytest.mark.slow
def test_a_fresh_process_needs_nothing_of_cutegen_and_with_an_artifact_compiles_nothing(
    kernels: dict[str, Path], tmp_path: Path
) -> None:
    folder = model_of(tmp_path / "model", kernels["shifted"], "default")
    wanted = {"added": 1.0, "placed": {"gate": 1}, "regions": {"gate": "kept at 2 places"}}
    assert in_a_process(folder, tmp_path / "cache", "save") == wanted | {"hits": 0}
    assert in_a_process(folder, tmp_path / "other cache") == wanted | {"hits": 1}


def test_an_artifact_that_is_damaged_or_another_build_s_is_not_used(
    file: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    model, x = nn.Sequential(Gated()).eval(), torch.randn(2, 8, 16)
    place = file.accelerate(model, (x,)).kernels.artifact
    assert place.parent == tmp_path / "model"
    place.write_bytes(b"no artifact")
    used = sys.modules[type(file.accelerate(model, (x,)).forward).__module__.replace("whole", "artifact")]
    for change, said in ((lambda: None, "is not used"), (lambda: place.chmod(0o666), "can be written by others")):
        change()
        used.load_artifact.cache_clear()
        fast = file.accelerate(model, (x,))
        assert said in caplog.messages[-1]
    with torch.no_grad():
        torch.testing.assert_close(fast(x), model(x))
    monkeypatch.setattr(torch, "__version__", "99.0")
    assert file.accelerate(model, (x,)).kernels.artifact != place


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["right", "shifted"])
def test_the_judge_tries_a_kernel_inside_what_inductor_makes(
    kernels: dict[str, Path], tmp_path: Path, kind: str
) -> None:
    """For real, in the locked child; whether it gains is the machine's business."""
    folder = model_of(tmp_path / "model", kernels[kind], "default")
    bench = LocalWorkbench(Settings(target="cpu"))
    found = bench.accept(ModelInput(source=SOURCE, name="toy"), folder, FILE, ("gate",), Deadline.of(900.0), 400.0)
    assert found.form == "compiled", found.instead
    (inside,) = found.regions
    assert inside.places == 2
    if kind == "shifted":
        assert "outputs are wrong inside the model" in inside.dropped
        assert found.reason == "No kernel gains inside torch.compile."
    else:
        assert inside.interval is not None
        assert (inside.dropped == "") == (inside.interval.low > 1.0)
