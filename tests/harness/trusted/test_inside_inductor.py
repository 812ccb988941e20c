"""Which regions stay in a compiled model: by a scripted clock, with what is compiled scripted, too."""

from __future__ import annotations

import time
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from harness.nouns.verdict import Interval
from harness.trusted.device import Device
from harness.trusted.models import holding, inside_inductor
from harness.trusted.models.holding import Whole
from harness.trusted.models.inside_inductor import NO_TIME, accept_inside
from harness.trusted.models.leaving import Leaving
from harness.trusted.models.whole_compiled import CompiledWhole
from harness.trusted.reference import Reference

SOURCE = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, -1)


def get_inputs():
    return [torch.randn(8, 16)]
"""
GAINS = {"good": 0.8, "better": 0.7, "none": 1.0, "worse": 1.3}
"""What a call takes with a region's kernel, as a multiple of what it takes without."""


class Made(torch.nn.Module):
    """The model with these regions in it, as `model_fast.py` gives it."""

    def __init__(self, names: tuple[str, ...], mode: str) -> None:
        super().__init__()
        self.names, self.mode = names, mode
        placed = Counter(dict.fromkeys((name for name in names if name != "nowhere"), 2))
        self.kernels = SimpleNamespace(
            strict=False, placed=placed, reasons=["it computes under autocast"], fallbacks={}
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if "failing" in self.names:
            raise RuntimeError("no such instruction")
        if "slow" in self.names:
            try:
                while True:
                    time.sleep(0.01)
            except Exception as error:  # as compilers wrap what is raised in them
                raise RuntimeError("the backend failed") from error
        return torch.softmax(x, -1) * (1.01 if "wrong" in self.names else 1.0)


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Milliseconds of the baselines, and of modes as shares of the first one's."""
    known = {"eager": 10.0, "compiled default": 8.0, "compiled max-autotune": 7.5, "default": 1.0, "max-autotune": 0.9}

    def call_by_turns(sides: dict[str, Any], _device: Device, _limit_s: float) -> dict[str, list[float]]:
        return {name: [taken(name, call) * (1 + 0.001 * k) for k in range(12)] for name, call in sides.items()}

    def taken(name: str, call: Any) -> float:
        made = getattr(call, "func", None)
        if not isinstance(made, Made):
            return known["compiled default"] if name == "without" else known[name]
        gain = 1.0
        for each in made.names:
            gain *= GAINS[each]
        return known["compiled default"] * gain * known[made.mode]

    for module in (holding, inside_inductor):
        monkeypatch.setattr(module, "call_by_turns", call_by_turns)
    return known


def accepted(*names: str, left_s: float = 600.0, modes: tuple[str, ...] = ("default",), compile_s: float = 0.0) -> Any:
    reference = Reference(SOURCE, "model")
    job: Any = SimpleNamespace(
        regions=names, tolerance=1.0, limit_s=4.0, ends_at=time.monotonic() + left_s, within="default"
    )

    def accelerate(_model: Any, _args: Any, _kwargs: Any, *, regions: Any, mode: str, **_more: Any) -> Made:
        return Made(regions, mode)

    device: Any = SimpleNamespace(finish=lambda: None, queues=False)
    file: Any = SimpleNamespace(accelerate=accelerate)
    whole = Whole(job, reference, reference.inputs(0), device, file, Leaving(reference))
    compiled = [CompiledWhole(mode, lambda: None, seconds=compile_s) for mode in modes]
    with torch.no_grad():
        return accept_inside(whole, compiled[0], compiled)


@pytest.mark.usefixtures("script")
def test_a_region_stays_where_the_compiled_whole_with_it_beats_that_without_it() -> None:
    found = accepted("good", "none", "better", "worse")
    assert found.accepted
    assert found.kept == ("good", "better")
    assert {each.name: round(each.speedup, 2) for each in found.regions} == {
        "good": 1.25, "none": 1.0, "better": 1.43, "worse": 0.77,
    }  # fmt: skip
    assert [each.places for each in found.regions] == [2, 2, 2, 2]
    assert (found.form, found.mode, round(found.speedup, 2)) == ("compiled", "default", 2.23)
    assert found.errors
    assert all(error.bad_fraction == 0 for error in found.errors)


@pytest.mark.usefixtures("script")
def test_what_is_wrong_fails_or_is_found_nowhere_goes_and_the_others_are_tried() -> None:
    found = accepted("wrong", "failing", "nowhere", "good")
    said = {each.name: each.dropped for each in found.regions}
    assert "outputs are wrong inside the model" in said["wrong"]
    assert "no such instruction" in said["failing"]
    assert "it computes under autocast" in said["nowhere"]
    assert found.kept == ("good",)


def test_the_fastest_mode_is_handed_out_and_has_to_beat_all_that_were_timed(script: dict[str, float]) -> None:
    modes = ("default", "max-autotune")
    assert accepted("good", modes=modes).mode == "max-autotune"
    script["compiled max-autotune"] = 5.0
    refused = accepted("good", modes=modes)
    assert not refused.accepted
    assert refused.kept == ()
    assert "not shown to be faster than torch.compile (max-autotune)" in refused.reason


@pytest.mark.usefixtures("script")
def test_where_nothing_gains_nothing_is_handed_out_and_it_is_said() -> None:
    found = accepted("none", "worse")
    assert not found.accepted
    assert found.reason == "No kernel gains inside torch.compile."


@pytest.mark.usefixtures("script")
def test_a_region_is_not_begun_where_one_more_compilation_does_not_fit() -> None:
    found = accepted("good", "better", left_s=20.0, compile_s=17.0)
    assert [each.dropped for each in found.regions] == [NO_TIME, NO_TIME]
    assert found.reason == "No kernel gains inside torch.compile; 2 of 2 were not tried."


@pytest.mark.usefixtures("script")
def test_a_compilation_that_has_its_time_is_ended_and_what_was_kept_stands() -> None:
    began = time.monotonic()
    found = accepted("good", "slow", left_s=8.0)
    assert time.monotonic() - began < 30.0
    assert found.accepted
    assert [each.dropped for each in found.regions] == ["", NO_TIME]


def test_an_interval_that_holds_1_is_no_gain(monkeypatch: pytest.MonkeyPatch, script: dict[str, float]) -> None:
    monkeypatch.setattr(inside_inductor, "ratio", lambda *_: (1.2, Interval(low=0.99, high=1.4)))
    assert accepted("good").kept == ()
