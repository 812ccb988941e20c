"""A small model captured, cut, put together and held against eager, for real. PyTorch stands in for its kernels."""

from __future__ import annotations

from pathlib import Path

import pytest
from run_samples import DEVICE

from graph.model.assembly import FILE, REGIONS, assembled, cuts_of
from graph.model.plan import Plan, plan_of
from graph.model.state import ModelInput
from graph.model.workbench import LocalWorkbench
from harness.judging import capturing
from harness.nouns.acceptance import Acceptance
from harness.nouns.capture import Capture
from harness.wire.deadline import Deadline
from nodes.settings import Settings

SOURCE = """
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.act = nn.LayerNorm(48), nn.Linear(48, 96), nn.ReLU(inplace=True)
        self.drop = nn.Dropout(0.3)

    def forward(self, x):
        one, two = self.drop(self.act(self.up(self.norm(x)))).chunk(2, -1)
        return x + one * torch.sigmoid(two)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(Block(), Block())
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("last", torch.zeros(48))

    def forward(self, x, scale=None):
        self.calls += 1
        x.mul_(0.5)
        y = self.layers(x)
        before = self.last.clone()
        self.last.copy_(y.mean(0))
        return {"y": y + before, "mean": x.mean()}


def get_inputs():
    return {"x": torch.randn(40, 48)}
"""
STAND_IN = """
{source}

class ModelNew(Model):
    def forward(self, *given):
        found = super().forward(*given)
        {change}
        return found
"""
BENCH = LocalWorkbench(Settings(target="cpu"))
MODEL = ModelInput(source=SOURCE, name="toy", compile_baseline=False, assembly=True)


@pytest.fixture(scope="module")
def captured() -> Capture:
    return BENCH.capture(MODEL, Deadline.of(600.0))


@pytest.fixture(scope="module")
def plan(captured: Capture) -> Plan:
    """On a made-up device: what is fused follows from its rates, and this machine's are measured."""
    # At such a rate no product is measured on any machine, so none is left to its library.
    return plan_of(captured, "cpu", DEVICE.model_copy(update={"peak_gflop_s": 1e6}))


@pytest.fixture(scope="module")
def sources(captured: Capture, plan: Plan) -> dict[str, str]:
    return BENCH.cut(MODEL, cuts_of(captured, plan.regions))


def accepted(
    folder: Path,
    captured: Capture,
    plan: Plan,
    sources: dict[str, str],
    change: dict[str, str],
    model: ModelInput = MODEL,
    left_s: float = 600.0,
) -> Acceptance:
    """With stand-ins for kernels, of which those of these regions do something more."""
    names = tuple(sources)
    for region in plan.regions:
        place = folder / REGIONS / region.name
        place.mkdir(parents=True)
        stand_in = STAND_IN.format(source=sources[region.name], change=change.get(region.kind, "pass"))
        (place / "model_new.py").write_text(stand_in)
    (folder / FILE).write_text(assembled(captured, plan, names))
    return BENCH.accept(model, folder, FILE, names, Deadline.of(left_s), max(0.0, left_s - 60.0))


def test_both_layers_are_places_of_one_product_and_every_region_is_cut_out(plan: Plan, sources: dict[str, str]) -> None:
    assert [len(region.places) for region in plan.regions if region.kind == "product"] == [2]
    assert {"norm", "product", "pointwise"} <= {region.kind for region in plan.regions}
    assert set(sources) == {region.name for region in plan.regions}


def test_the_model_put_together_again_is_right(
    tmp_path: Path, captured: Capture, plan: Plan, sources: dict[str, str]
) -> None:
    # What a compiler would take half a minute for is its business: here torch.compile's version is eager's.
    plain = f"{SOURCE}\n\ntorch._dynamo.config.disable = True\n"
    beside = MODEL.model_copy(update={"source": plain, "compile_baseline": True})
    acceptance = accepted(tmp_path, captured, plan, sources, {}, beside)
    assert not [each for each in acceptance.regions if "wrong" in each.dropped or "fails" in each.dropped]
    assert {each.name for each in acceptance.regions} == set(sources)
    assert all(each.speedup for each in acceptance.regions)
    assert acceptance.eager_peak_bytes is not None
    least = 4 * (40 * 48 + 2 * (48 * 96 + 96 + 2 * 48)) + 4 * 2 * 40 * 96
    assert least < acceptance.eager_peak_bytes < 4 * least, "weights, inputs, and two of a block's values"
    assert (acceptance.peak_bytes is not None) == acceptance.accepted
    if acceptance.rounds:  # where a region of these seems to gain, the whole is timed beside what is compiled
        (beside,) = acceptance.compiled
        assert beside.mode == "default"
        assert (beside.interval is None) == bool(beside.failure)


def test_a_kernel_that_is_wrong_or_fails_inside_the_model_is_dropped_and_named(
    tmp_path: Path, captured: Capture, plan: Plan, sources: dict[str, str]
) -> None:
    # A norm's region may give more than the norm: what else the plan found cheaper to compute beside it.
    scaled = "found = found * 1.001 if torch.is_tensor(found) else tuple(each * 1.001 for each in found)"
    change = {"norm": scaled, "product": "raise RuntimeError('no memory')"}
    acceptance = accepted(tmp_path, captured, plan, sources, change)
    said = {each.name.split("-")[0]: each.dropped for each in acceptance.regions if each.dropped}
    assert "its outputs are wrong inside the model" in said["norm"]
    assert "fails inside the model" in said["product"]
    assert "no memory" in said["product"]
    assert not {"norm", "product"} & {name.split("-")[0] for name in acceptance.kept}


def test_a_kernel_that_ends_its_process_leaves_the_model_as_it_is(
    tmp_path: Path, captured: Capture, plan: Plan, sources: dict[str, str]
) -> None:
    acceptance = accepted(tmp_path, captured, plan, sources, {"norm": "import os; os.abort()"})
    assert not acceptance.accepted
    assert "killed by SIGABRT" in acceptance.reason


def test_a_kernel_that_never_ends_inside_the_model_is_ended_with_the_budget(
    tmp_path: Path, captured: Capture, plan: Plan, sources: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capturing, "LATE_S", 3.0)
    acceptance = accepted(tmp_path, captured, plan, sources, {"norm": "while True: pass"}, left_s=3.0)
    assert not acceptance.accepted
    assert acceptance.reason == capturing.LATE


def test_without_time_the_answer_comes_from_few_rounds(
    tmp_path: Path, captured: Capture, plan: Plan, sources: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capturing, "LATE_S", 200.0)  # on a busy machine few rounds take long, too
    beside = MODEL.model_copy(update={"compile_baseline": True})
    acceptance = accepted(tmp_path, captured, plan, sources, {}, beside, left_s=0.0)
    assert acceptance.reason != capturing.LATE
    assert all(each.interval for each in acceptance.regions)
    assert [each.failure for each in acceptance.compiled] == ["the time for compiling was over before it"]
