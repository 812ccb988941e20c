"""Small models, captured for real in the locked child."""

from __future__ import annotations

from contextlib import suppress

import pytest
import torch
from run_samples import DEVICE

from graph.model.partition import regions_of
from graph.model.plan import plan_of
from graph.model.writers import Writers
from harness.isolation.tiers import resolve_tier
from harness.judging.capturing import ModelOnTarget
from harness.nouns.capture import Capture
from harness.nouns.errors import MachineError, UserError
from harness.targets.cpu import CpuTarget
from harness.trusted.models.footprint import FollowedEnough, Footprint
from harness.wire.deadline import Deadline

NET = """
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.act = nn.LayerNorm(32), nn.Linear(32, 32), nn.ReLU(inplace=True)

    def forward(self, x):
        return x + nn.functional.dropout(self.act(self.up(self.norm(x))), 0.5, self.training)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(Block(), Block())

    def forward(self, x):
        return self.layers(x)


def get_inputs():
    return [torch.randn(64, 32)]
"""
ODD = NET.replace(
    "        return self.layers(x)\n",
    "        x = x + torch.rand(32)\n        if x.sum() > 0:\n            x = self.layers[0](x)\n"
    "        return self.layers[1](x)\n",
)
HEAVY = NET.replace("torch.randn(64, 32)", "torch.randn(1 << 34, 32)")


def captured(source: str) -> Capture:
    return ModelOnTarget(source, "net", CpuTarget(), resolve_tier("auto")).capture(Deadline.of(600.0))


@pytest.fixture(scope="module")
def net() -> Capture:
    return captured(NET)


def test_the_whole_is_one_part_in_its_modules(net: Capture) -> None:
    (part,) = net.parts
    assert net.missed == ()
    assert [each.name for each in part.operations] == ["layer_norm", "linear", "relu", "add"] * 2
    assert part.operations[1].module == "layers.0.up"
    assert part.operations[1].module_type == "Linear"
    assert all(each.ms > 0 and not each.hindrance for each in part.operations)
    assert part.operations[1].flops == 2 * 64 * 32 * 32
    assert net.flops == 2 * part.operations[1].flops
    assert [len(part.inputs), len(part.weights)] == [1, 8]
    weights = 2 * (32 * 32 + 3 * 32) * 4
    assert net.weight_bytes == weights
    assert weights + 2 * 64 * 32 * 4 <= net.memory_bytes <= weights + 8 * 64 * 32 * 4


def test_where_inductor_compiles_it_operations_have_the_times_of_inductor_s_kernels() -> None:
    capture = ModelOnTarget(NET, "net", CpuTarget(), resolve_tier("auto")).capture(Deadline.of(900.0), 300.0)
    assert capture.uncompiled == ""
    assert capture.compiled_ms is not None
    (part,) = capture.parts
    norms = [each.ms for each in part.operations if each.name == "layer_norm"]
    assert all(ms > 0 for ms in norms)
    assert sum(each.ms for each in part.operations) == pytest.approx(capture.compiled_ms, rel=0.01)


def test_what_it_captures_can_be_planned(net: Capture) -> None:
    device = DEVICE.model_copy(update={"peak_gflop_s": 1e6})  # at whose rate no product is measured anywhere
    plan = plan_of(net, "cpu", device)
    assert {region.kind: len(region.places) for region in plan.regions} == {"norm": 2, "product": 2}
    assert len(regions_of(net, Writers("cpu", device))) == 4


def test_of_a_model_with_control_flow_on_data_the_modules_inside_are_captured() -> None:
    capture = captured(ODD)
    assert [part.path for part in capture.parts] == ["layers.0", "layers.1"] or [
        part.path for part in capture.parts
    ] == ["layers.1"], "the first is called or not, by the data"
    (missed,) = capture.missed
    assert missed.path == ""
    assert "data-dependent" in missed.reason
    assert capture.parts[-1].operations[1].module == "layers.1.up"


def test_a_model_that_is_larger_than_the_memory_is_told_before_it_runs() -> None:
    with pytest.raises(MachineError, match=r"needs about [\d.]+ GiB for one call"):
        captured(HEAVY)


def test_a_forward_that_fails_is_the_files_fault() -> None:
    with pytest.raises(UserError, match="net: forward raised"):
        captured(NET.replace("torch.randn(64, 32)", "torch.randn(64, 31)"))


def test_memory_that_ends_while_it_is_measured_is_the_machines_fault() -> None:
    source = NET.replace("return self.layers(x)", "raise torch.OutOfMemoryError('no room')")
    with pytest.raises(MachineError, match=r"no room.*Is there enough memory"):
        captured(source)


def test_random_numbers_sizes_by_values_and_types_of_no_kernel_are_hindered_and_the_rest_planned() -> None:
    drawn = "self.layers(x) + torch.rand(64, 32)"
    picked = "x = self.layers(x)\n        y = x[x > 0] * 2\n        x = x * x.sum().item()"
    source = NET.replace(
        "return self.layers(x)",
        f"{picked}\n        return {drawn}, y.sum(), y[: y.numel() // 2], torch.fft.rfft(x).abs()",
    )
    capture = captured(source)
    (part,) = capture.parts
    hindered = {each.name: each.hindrance for each in part.operations if each.hindrance}
    assert hindered.pop("rand") == "it draws random numbers"
    assert "sizes that follow from values" in hindered["index"]
    assert "type torch.complex64" in hindered["fft_rfft"]
    assert "no task could be given" in hindered["sum"]
    assert "no task could be given fft_rfft" in hindered["abs"]
    planned = [name for region in plan_of(capture, "cpu", DEVICE).regions for name in region.operations]
    assert {"layer_norm", "linear"} <= set(planned)
    assert not hindered.keys() & set(planned) - {"sum"}


def test_a_check_that_export_adds_is_no_operation() -> None:
    """What is turned into another type is checked to have the one that it had."""
    source = NET.replace("return self.layers(x)", "return self.layers(x).to(torch.bfloat16).to(torch.float32)")
    (part,) = captured(source).parts
    assert all(each.op.results for each in part.operations)
    assert not [each.name for each in part.operations if "assert" in each.name]


def test_a_forward_that_is_long_without_memory_is_followed_for_a_while() -> None:
    with suppress(FollowedEnough), Footprint(-1.0) as footprint:
        torch.ones(4).add(1)
        pytest.fail("it was followed on")
    assert footprint.peak_bytes == 0
    with Footprint(1e9) as footprint:
        torch.ones(4, 256).add(1)
    assert 4096 <= footprint.peak_bytes <= 2 * 4096
