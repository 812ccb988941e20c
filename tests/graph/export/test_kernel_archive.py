"""Without a folder torch.compile's backend looks kernels up in the user's archive; the archive and its limits."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from drop_ins import candidate, described, exported
from run_samples import passed
from test_compile_backend import KERNEL, TASK, Gated
from torch import nn
from torch._dynamo.backends import registry
from torch.nn import functional as F

from graph.driving.keeping import keep_winner
from graph.export.runtime import archive, backend
from graph.runs.folder import RunFolder
from graph.runs.machine import this_machine
from graph.runs.record import RunRecord
from harness.nouns.tier import Tier
from harness.nouns.verdict import Compiled, Interval
from nodes.settings import Settings
from nodes.state import Best


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the kernel adds tells its calls from those of Inductor's own code."""
    return exported(tmp_path_factory.mktemp("kernels") / "gate", TASK, KERNEL.replace("ADDED", "1"))


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("CUTEGEN_CACHE", str(tmp_path / "cache"))
    torch._dynamo.reset()
    # Whoever came first in this process has registered: a folder's own copy of the backend may have.
    monkeypatch.setitem(registry._COMPILER_FNS, backend.NAME, backend.compile_graph)
    backend.COMPILED.clear()
    backend._TOLD.clear()
    yield
    torch._dynamo.reset()


def kept(
    folder: Path, *, compiled: float | None = None, outcome: Any = "improved", tier: Tier = "landlock", **settings: Any
) -> None:
    """A run that ended in this folder with the gate's kernel, as the archive hears of it."""
    task, kernel = described(TASK), candidate(KERNEL)
    beside = Compiled(ms=1.0, speedup=compiled, interval=Interval(low=compiled, high=compiled)) if compiled else None
    verdict = passed(kernel, 2.0)
    timing = verdict.timing.model_copy(update={"compiled": beside})
    best = Best(candidate=kernel, verdict=verdict.model_copy(update={"timing": timing, "tier": tier}))
    record = RunRecord(
        id="a", outcome=outcome, task=task, name="gate", created="2026-01-01T00:00:00Z", seconds=1.0, settings={},
        machine=this_machine(), best=best,
    )  # fmt: skip
    keep_winner(RunFolder(folder), record, Settings(**settings))


def added(options: dict[str, Any] | None = None) -> float:
    """What a gated product is larger by than eager's, compiled without a folder; nobody is warned of anything."""
    torch._dynamo.reset()
    a, b = torch.randn(2, 2, 8, 32).unbind()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*Inductor compiles.*")
        made: Any = torch.compile(lambda a, b: F.silu(a) * b, backend="cutegen", options=options)
        return round(float((made(a, b) - F.silu(a) * b).mean()), 4)


def test_a_run_s_kernel_is_found_for_what_computes_the_same_and_none_where_none_is_asked_for(gate: Path) -> None:
    assert added() == 0
    kept(gate)
    assert added() == 1
    assert added({"kernels": []}) == 0
    assert [dict(each.placed) for each in backend.COMPILED] == [{}, {"gate": 1}]


def test_what_is_not_there_is_inductor_s(gate: Path) -> None:
    kept(gate)
    model, x = nn.Sequential(nn.Linear(16, 16), nn.Tanh()), torch.randn(2, 8, 16)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(model, backend="cutegen")(x), model(x))
    assert backend.COMPILED[-1] == backend.Compiled()


def test_a_drop_in_that_cannot_fit_is_not_run(gate: Path, tmp_path: Path) -> None:
    """Its tensors' sizes tell; a drop-in runs the task's own text."""
    folder = Path(shutil.copytree(gate, tmp_path / "gate"))
    (folder / "model_new.py").write_text("raise SystemExit('it was run')\n")
    kept(folder)
    model, x = Gated(), torch.randn(3, 8, 16)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(model, backend="cutegen")(x), model(x))


@pytest.mark.parametrize(
    "how",
    [
        {"compiled": 0.9},
        {"outcome": "interrupted"},
        {"archive": "none"},
        {"tolerance": 2},
        {"precision": "tf32"},
        {"tier": "none"},
    ],
    ids=lambda how: next(iter(how)),
)
def test_what_torch_compile_beats_what_nobody_keeps_and_loose_verdicts_stay_out(gate: Path, how: Any) -> None:
    kept(gate, **how)
    assert archive.entries(archive.device_name("cpu", None)) == []


def test_a_lost_changed_or_foreign_drop_in_is_no_kernel(gate: Path, tmp_path: Path) -> None:
    device, folder = archive.device_name("cpu", None), Path(shutil.copytree(gate, tmp_path / "gate"))
    kept(folder, compiled=1.1)
    (file,) = (tmp_path / "cache" / "kernels").glob("*.json")
    whole, text = file.read_text(), (folder / "model_new.py").read_text()
    assert [each.folder for each in archive.entries(device)] == [folder]
    assert archive.entries("another device") == []
    (folder / "model_new.py").write_text(text + "# changed\n")
    assert archive.entries(device) == []
    (folder / "model_new.py").write_text(text)
    for damaged in ("", "[]", "{}", json.dumps(json.loads(whole) | {"workloads": [[]]}), whole[:-9]):
        file.write_text(damaged)
        assert archive.entries(device) == []
    file.write_text(whole)
    file.chmod(0o666)
    assert archive.entries(device) == []
    file.chmod(0o644)
    assert added() == 1
    shutil.rmtree(folder)
    assert added() == 0


@pytest.mark.parametrize("gone", ["kernel.so", None], ids=["built anew", "edited"])
@pytest.mark.parametrize("name", ["kernel.cu", "cutegen_runtime/drop_in.py"])
def test_a_kernel_or_a_runtime_that_was_edited_since_takes_no_place(
    gate: Path, tmp_path: Path, name: str, gone: str | None
) -> None:
    """The folder's owner goes on with the text; nobody judged that, and no compiler is asked for it."""
    folder = Path(shutil.copytree(gate, tmp_path / "gate"))
    kept(folder)
    file = folder / name
    text = file.read_text()
    file.write_text(text.replace("+ 1;", "+ 9;") + "\n")
    if gone:
        (folder / gone).unlink()
    assert added() == 0
    assert not (tmp_path / "cache" / "drop_ins").exists()
    file.write_text(text)
    if gone is None:
        assert added() == 1


def test_an_edited_kernel_makes_room_for_a_slower_one(gate: Path, tmp_path: Path) -> None:
    folder, tensors = Path(shutil.copytree(gate, tmp_path / "gate")), [frozenset({"float32 [2] [1]"})]
    archive.note(folder, "task", "here", 3.0, tensors)
    (folder / "kernel.cu").write_text("// another\n")
    archive.note(gate, "task", "here", 1.5, tensors)
    assert [each.folder for each in archive.entries("here")] == [gate]


def test_of_two_runs_of_a_task_the_faster_one_stays(gate: Path, tmp_path: Path) -> None:
    other, device = Path(shutil.copytree(gate, tmp_path / "other")), archive.device_name("cpu", None)
    tensors = [frozenset({archive.kind("float32", (2, 3), (3, 1))})]
    for folder, speedup in ((gate, 2.0), (other, 1.5), (other, 3.0)):
        archive.note(folder, "task", device, speedup, tensors)
    assert [(each.folder, each.speedup, each.workloads) for each in archive.entries(device)] == [
        (other, 3.0, tuple(tensors))
    ]
    shutil.rmtree(other)
    archive.note(gate, "task", device, 1.2, tensors)
    assert [each.folder for each in archive.entries(device)] == [gate]
