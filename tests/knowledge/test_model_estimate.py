"""What the compiler's kernels would take, told before one is written: convolutions by tiles on tensor cores."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from gpu_kernels import A100, H200, traced

from graph.cli.prompts import H200 as FACTS
from knowledge.compiler.problem import Device
from knowledge.compiler.schedule.loops.estimate import estimate_ms


def estimated(channels: int, size: int, images: int, device: Device = H200) -> float:
    """Of a 3 x 3 convolution with a ReLU behind it."""
    x, w = (
        torch.empty(images, channels, size, size, device="meta"),
        torch.empty(channels, channels, 3, 3, device="meta"),
    )
    found = estimate_ms(traced(lambda x, w: F.conv2d(x, w, padding=1).relu(), x, w, device=device), FACTS)
    assert found is not None
    return found


def test_a_convolution_that_fills_the_device_takes_its_products_at_their_rate() -> None:
    products_ms = 2 * 64 * 56 * 56 * 64 * 64 * 9 / (60_000 * 1e6)
    assert products_ms < estimated(64, 56, 64) < 2.5 * products_ms
    assert estimated(64, 56, 64, A100) < 3 * estimated(64, 56, 64), "the same rate, other tiles"


def test_few_images_take_as_long_as_a_wave_of_tiles() -> None:
    few_ms = 2 * 512 * 512 * 9 * 7 * 7 / (60_000 * 1e6)
    assert estimated(512, 7, 1) > 10 * few_ms, "most multiprocessors have no tile"
    assert estimated(512, 7, 2) < 1.6 * estimated(512, 7, 1), "and one wave has room for more"
