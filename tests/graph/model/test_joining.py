"""Regions in a row as one, for a GPU: what is joined, what stays apart, and that layers stay places of one form."""

from __future__ import annotations

import pytest
from captures import ROWS, WIDTH, block, captured, operation, packed, part, two_layers, weights
from run_samples import DEVICE

from graph.model import joining
from graph.model.plan import plan_of
from harness.nouns.capture import Capture, Operation, Part

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


IMAGE = (2, 16, 56, 56)
RESIDUAL = ("conv2d", "relu", "conv2d", "add", "relu")


def residual(layer: int, taken: str) -> list[Operation]:
    """Two convolutions of 3 x 3 and a sum, each slower than the compiler's estimate."""

    def convolved(result: str, given: str, weight: str) -> Operation:
        return operation(
            result, "conv2d.default", given, weight, None, (1, 1), (1, 1), shape=IMAGE, ms=10.0
        )  # fmt: skip

    return [
        convolved(f"one{layer}", taken, f"c{layer}"),
        operation(f"act{layer}", "relu.default", f"one{layer}", shape=IMAGE),
        convolved(f"two{layer}", f"act{layer}", f"d{layer}"),
        operation(f"sum{layer}", "add.Tensor", f"two{layer}", taken, shape=IMAGE),
        operation(f"out{layer}", "relu.default", f"sum{layer}", shape=IMAGE),
    ]


def residuals(count: int) -> Part:
    operations = [each for layer in range(count) for each in residual(layer, f"out{layer - 1}" if layer else "x")]
    filters = [packed(f"{name}{layer}", 16, 16, 3, 3) for layer in range(count) for name in "cd"]
    return part(*operations, inputs=(packed("x", *IMAGE),), weights=filters)


@pytest.mark.parametrize("count", [1, 3])
def test_convolutions_in_a_row_are_one_region_of_the_compilers(count: int) -> None:
    assert regions(captured(residuals(count), whole_ms=30.0 * count)) == {RESIDUAL: ("loops", count)}


def test_what_the_compiler_would_not_gain_by_stays_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    gain = joining.Writers.gain_ms
    monkeypatch.setattr(
        joining.Writers, "gain_ms", lambda self, window: gain(self, window) if len(window.operations) < 5 else 0.0
    )
    assert set(regions(captured(residuals(1), whole_ms=30.0))) == {RESIDUAL[:2], RESIDUAL[2:]}
