"""Live modules as tasks: their inputs are drawn anew from the given ones, which stay one of the trials."""

from __future__ import annotations

import copy
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from report_records import full_record
from torch import nn

from graph.api.calls import RunResult, load_task
from graph.cli.optimize import sentences
from graph.driving.session import save_kernel
from graph.export.live_module import module_files
from graph.pages.report import OUTCOMES, render
from graph.runs.folder import RunFolder, create, reopen
from harness.building.store import exported_modules
from harness.isolation.tiers import resolve_tier
from harness.tasks.describing import describe_task
from nodes.settings import Settings


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5))

    def forward(self, x: torch.Tensor, again: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self.layers(x)[rows] + again[rows]
        return hidden


def executed(source: str) -> SimpleNamespace:
    """The task file, run as the judge runs it."""
    names: dict[str, Any] = {}
    os.environ["CUTEGEN_EXPORTED"] = str(exported_modules().root)
    exec(source, names)
    return SimpleNamespace(**names)


@pytest.fixture(autouse=True, scope="module")
def _own_environment() -> Iterator[None]:
    """What `executed` sets there is gone afterwards."""
    with mock.patch.dict(os.environ):
        yield


@pytest.fixture(scope="module")
def given_once() -> tuple[Net, tuple[torch.Tensor, ...], SimpleNamespace]:
    net, x = Net(), torch.randn(6, 8)
    inputs = (x, x, torch.tensor([0, 5, 2, 2]))
    return net, inputs, executed(load_task(net, inputs=inputs).source)


def draw(file: SimpleNamespace, seed: int) -> list[torch.Tensor]:
    torch.manual_seed(seed)
    drawn: list[torch.Tensor] = file.get_inputs()
    return drawn


def test_the_given_inputs_belong_to_one_seed_and_each_other_has_its_own(given_once) -> None:  # type: ignore[no-untyped-def]
    _, inputs, file = given_once
    assert all(map(torch.equal, draw(file, file.GIVEN_SEED), inputs))
    one, again, other = draw(file, 1), draw(file, 1), draw(file, 2)
    assert all(map(torch.equal, one, again))
    assert not torch.equal(one[0], other[0])
    assert not torch.equal(one[0], inputs[0])
    assert torch.equal(one[0], one[1]), "a tensor that was given twice is one again"
    assert set(other[2].tolist()) <= {0, 2, 5}


def test_the_program_computes_what_the_module_does_in_evaluation_mode(given_once) -> None:  # type: ignore[no-untyped-def]
    net, inputs, file = given_once
    assert all(each.training for each in net.modules()), "exporting leaves the module in its mode"
    net.eval()
    model = file.Model()
    assert torch.equal(model(*inputs), net(*inputs))
    assert list(model.state_dict()) == list(net.state_dict())
    net.train()


def test_inputs_may_be_given_by_name() -> None:
    net, x = Net().eval(), torch.randn(6, 8)
    inputs = {"rows": torch.tensor([1, 2]), "x": x, "again": x}
    file = executed(load_task(net, inputs=inputs).source)
    given = draw(file, file.GIVEN_SEED)
    assert list(given) == ["rows", "x", "again"]
    assert torch.equal(file.Model()(**given), net(**inputs))


def test_a_copy_of_the_model_has_weights_of_its_own(given_once) -> None:  # type: ignore[no-untyped-def]
    _, inputs, file = given_once
    model = file.Model()
    copied = copy.deepcopy(model)
    before = model(*inputs)
    with torch.no_grad():
        copied.get_parameter("layers.0.weight").zero_()
    assert torch.equal(model(*inputs), before)
    assert not torch.equal(copied(*inputs), before)


@cache
def like() -> Callable[[torch.Tensor], torch.Tensor]:
    """How a task file draws; exported where first asked for, since that loads what collecting need not wait for."""
    drawing: Callable[[torch.Tensor], torch.Tensor] = executed(
        load_task(nn.Identity(), inputs=(torch.ones(2),)).source
    ).like
    return drawing


def is_in_order(each: torch.Tensor) -> bool:
    return bool((each.diff(dim=-1) >= 0).all())


PROMISES: dict[str, tuple[Callable[[], torch.Tensor], Callable[[torch.Tensor], bool]]] = {
    "causal": (lambda: torch.ones(5, 5).tril().bool(), lambda x: torch.equal(x, torch.ones(5, 5).tril().bool())),
    "additive mask": (
        lambda: torch.full((5, 5), -torch.inf).triu(1),
        lambda x: torch.equal(x, torch.full((5, 5), -torch.inf).triu(1)),
    ),
    "triangle": (lambda: torch.randn(3, 5, 5).tril(), lambda x: torch.equal(x, x.tril())),
    "unit triangle": (
        lambda: torch.randn(5, 5).tril(-1) + torch.eye(5), lambda x: bool((x.diagonal() == 1).all()),
    ),
    "symmetric, positive": (
        lambda: (lambda a: a + a.mT + 20 * torch.eye(5))(torch.randn(5, 5)),
        lambda x: torch.equal(x, x.mT) and bool((torch.linalg.eigvalsh(x) > 0).all()),
    ),
    "probabilities": (
        lambda: torch.randn(4, 9).softmax(-1),
        lambda x: torch.allclose(x.sum(-1), torch.ones(4)) and bool((x >= 0).all()),
    ),
    "one-hot": (
        lambda: nn.functional.one_hot(torch.tensor([1, 0, 3]), 5), lambda x: x.sum(-1).tolist() == [1, 1, 1],
    ),
    "offsets": (
        lambda: torch.tensor([0, 3, 4, 9, 9, 12]), lambda x: is_in_order(x) and x[[0, -1]].tolist() == [0, 12],
    ),
    "lengths": (
        lambda: torch.arange(6) < torch.tensor([[2], [6], [4]]), lambda x: sorted(x.sum(-1).tolist()) == [2, 4, 6]
        and is_in_order(x.flip(-1).int()),
    ),
    "permutation": (lambda: torch.tensor([3, 0, 2, 1, 4]), lambda x: sorted(x.tolist()) == [0, 1, 2, 3, 4]),
    "columns of other ranges": (
        lambda: torch.stack([torch.randint(2, (40,)), torch.randint(7, 90, (40,))], 1),
        lambda x: int(x[:, 0].max()) < 2 <= 7 <= int(x[:, 1].min()),
    ),
    "expanded": (lambda: torch.randn(5, 1).expand(5, 7), lambda x: x.stride() == (1, 0)),
    "transposed": (lambda: torch.randn(5, 7, dtype=torch.bfloat16).mT, lambda x: x.stride() == (1, 7)),
    "every second": (lambda: torch.randn(8, 9)[::2, ::3], lambda x: x.stride() == (18, 3)),
    "windows": (lambda: torch.randn(9).unfold(0, 3, 1), lambda x: x.stride() == (1, 1)),
    "complex": (lambda: torch.randn(4, 4, dtype=torch.complex64), lambda x: x.is_complex()),
    "a number": (lambda: torch.tensor(3.5), lambda x: float(x) == 3.5),
    "nothing": (lambda: torch.empty(0, 3), lambda x: x.shape == (0, 3)),
    "no number": (lambda: torch.tensor([1.0, torch.nan, 3.0]), lambda x: x.dtype == torch.float32),
}  # fmt: skip


@pytest.mark.parametrize("promise", PROMISES)
@settings(max_examples=20)
@given(seed=st.integers(0, 1 << 30))
def test_what_the_given_tensor_promises_is_kept(promise: str, seed: int) -> None:
    torch.manual_seed(seed)
    make, holds = PROMISES[promise]
    shown = make()
    drawn = like()(shown)
    assert (drawn.dtype, drawn.shape, drawn.device) == (shown.dtype, shown.shape, shown.device)
    assert holds(shown)
    assert holds(drawn)


@settings(max_examples=50)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.integers(0, 1 << 30), st.booleans())
def test_elements_are_the_given_ones_own(shape: list[int], seed: int, whole: bool) -> None:
    """Range, signs and ties follow."""
    torch.manual_seed(seed)
    shown = torch.randint(-9, 9, shape) if whole else torch.randn(shape)
    if shown.ndim > 1 and shown.shape[-1] == shown.shape[-2]:
        return  # triangles and symmetric matrices keep that
    assert set(like()(shown).flatten().tolist()) <= set(shown.flatten().tolist()) or is_monotone(shown)


def is_monotone(each: torch.Tensor) -> bool:
    return is_in_order(each) or is_in_order(each.flip(-1))


def test_drawn_numbers_differ_as_much_as_fresh_ones_would() -> None:
    torch.manual_seed(0)
    shown = torch.randn(64, 1024)
    means = torch.stack([like()(shown).mean() for _ in range(50)])
    assert 0.5 < float(means.std()) * shown.numel() ** 0.5 < 1.5
    assert float(like()(shown).std() / shown.std()) == pytest.approx(1, abs=0.05)


def test_a_degenerate_task_is_named_wherever_its_result_is_shown(tmp_path: Path) -> None:
    record = full_record()
    assert record.best is not None
    assert record.best.verdict.timing is not None
    timing = record.best.verdict.timing.model_copy(update={"task_defect": "the inputs have no influence"})
    verdict = record.best.verdict.model_copy(update={"timing": timing})
    best = record.best.model_copy(update={"verdict": verdict})
    empty = record.model_copy(update={"best": best, "outcome": "nothing_faster"})
    said = "No win on a degenerate task: the inputs have no influence."
    result = RunResult(RunFolder(tmp_path), empty)
    assert said in sentences(result, judged_before=False)
    assert said in repr(result)
    assert "nothing_faster (no gain in 2 depths)" in repr(
        RunResult(RunFolder(tmp_path), record.model_copy(update={"outcome": "nothing_faster"}))
    )
    assert said in render(empty)
    assert OUTCOMES["nothing_faster"] not in render(empty)
    assert said not in render(record)
    assert said not in sentences(RunResult(RunFolder(tmp_path), record), judged_before=False)


TRAVELLED = """
import pickle, sys
import torch
from model_new import ModelNew
model = ModelNew()
torch.save(model.state_dict(), sys.argv[1])
again = pickle.loads(pickle.dumps(model))
assert all(map(torch.equal, again.state_dict().values(), model.state_dict().values()))
"""


def test_a_saved_folder_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It loads where the cache is another one, and pickles."""
    monkeypatch.setenv("CUTEGEN_CACHE", str(tmp_path / "cache"))
    net, record = Net(), full_record()
    source = load_task(net, inputs=(torch.randn(6, 8), torch.randn(6, 8), torch.tensor([1]))).source
    assert record.task is not None
    run = RunFolder(tmp_path / "run")
    run.path.mkdir()
    save_kernel(run, record.task.model_copy(update={"source": source}), record.best)
    saved = RunResult(run, record).save(tmp_path / "saved")
    shutil.rmtree(tmp_path / "cache")
    shutil.rmtree(run.path)
    done = subprocess.run(
        [sys.executable, "-c", TRAVELLED, tmp_path / "state.pt"], cwd=saved, capture_output=True, text=True,
        timeout=120,
        env={"PATH": "/usr/bin:/bin", "CUTEGEN_CACHE": str(tmp_path / "other"), "PYTHONPATH": str(saved)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    state = torch.load(tmp_path / "state.pt")
    assert list(state) == list(net.state_dict())
    assert all(map(torch.equal, state.values(), net.state_dict().values()))


def test_a_run_folder_brings_its_module_to_another_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUTEGEN_CACHE", str(tmp_path / "cache"))
    task = load_task(nn.Linear(8, 4), inputs=(torch.randn(6, 8),))
    run, _ = create(tmp_path / "run", name=task.name, source=task.source, settings=Settings())
    assert str(tmp_path) not in task.source
    moved = tmp_path / "moved"
    run.path.rename(moved)
    shutil.rmtree(tmp_path / "cache")
    monkeypatch.setenv("CUTEGEN_CACHE", str(tmp_path / "other"))
    assert not module_files(task.source)
    _, manifest = reopen(moved, trust=True)
    described = describe_task(manifest.source, name=manifest.name, tier=resolve_tier("auto"))
    assert described.signature.outputs[0].shape == (6, 4)


def test_a_program_that_is_not_the_one_named_stays_out_of_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUTEGEN_CACHE", str(tmp_path / "cache"))
    task = load_task(nn.Linear(8, 4), inputs=(torch.randn(6, 8),))
    run, _ = create(tmp_path / "run", name=task.name, source=task.source, settings=Settings())
    shutil.rmtree(tmp_path / "cache")
    (run.path / "inputs.pt").write_bytes(b"something else")
    reopen(run.path, trust=True)
    assert not module_files(task.source)
