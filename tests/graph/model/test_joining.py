"""Regions in a row as one, for a GPU: what is joined, what stays apart, and that layers stay places of one form."""

from __future__ import annotations

import pytest
from captures import ROWS, WIDTH, block, captured, operation, packed, part, two_layers, weights
from run_samples import DEVICE

from graph.model import joining
from graph.model.plan import plan_of
from harness.nouns.capture import Capture, Part

GPU = DEVICE.model_copy(
    update={"architecture": "sm_90a", "multiprocessors": 132, "shared_bytes": 227 << 10, "tf32_gflop_s": 400.0}
)
BLOCK = ("layer_norm", "linear", "relu", "linear", "add")


def regions(capture: Capture) -> dict[tuple[str, ...], tuple[str, int]]:
    """Recipe and number of places by the operations."""
    plan = plan_of(capture, "cuda", GPU)
    return {region.operations: (region.recipe, len(region.places)) for region in plan.regions}


def layers(count: int) -> Part:
    """Blocks in a row."""
    operations = [each for layer in range(count) for each in block(layer, f"out{layer - 1}" if layer else "x")]
    return part(
        *operations,
        inputs=(packed("x", ROWS, WIDTH),),
        weights=[each for layer in range(count) for each in weights(layer)],
    )


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_layer_is_one_region_however_often_it_stands_there(count: int) -> None:
    assert regions(captured(layers(count), whole_ms=11.0 * count)) == {BLOCK: ("stages", count)}


def test_what_follows_many_layers_stays_beside_them() -> None:
    whole = layers(4)
    tail = operation("e", "softmax.int", "out3", -1, shape=(ROWS, WIDTH))
    ended = whole.model_copy(update={"operations": (*whole.operations, tail), "outputs": ("e",)})
    found = regions(captured(ended, whole_ms=45.0))
    assert found == {BLOCK: ("stages", 4), ("softmax",): ("rows", 1)}


def test_nothing_is_joined_over_what_nobody_may_write() -> None:
    found = regions(captured(two_layers(hindrance="it draws random numbers"), whole_ms=22.0))
    assert found == {("layer_norm", "linear"): ("stages", 1), ("linear", "add", *BLOCK): ("stages", 1)}


def test_what_the_playbook_cannot_write_in_a_row_stays_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining.Writers, "stages", lambda *_: "")
    assert set(regions(captured(layers(2), whole_ms=22.0))) == {BLOCK[:1], BLOCK[1:3], BLOCK[3:]}


def test_a_source_holds_a_bounded_number_of_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "MOST_JOINED", 2)
    found = regions(captured(layers(1), whole_ms=11.0))
    assert found == {BLOCK[:3]: ("stages", 1), BLOCK[3:]: ("gemm", 1)}
