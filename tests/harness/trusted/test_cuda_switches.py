"""What a precision sets in PyTorch, for the reference's error and for the clock alike; no GPU is needed for that."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from harness.nouns.verdict import Precision
from harness.trusted import cuda_device


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[cuda_device.CudaDevice]:
    monkeypatch.setattr(cuda_device.CudaDevice, "place", torch.device("cpu"))
    monkeypatch.setenv("CUDA_CACHE_PATH", "")
    monkeypatch.setattr(cuda_device, "Driver", lambda ordinal: None)
    # PyTorch's own test helpers, which other tests of this process import, freeze these flags.
    monkeypatch.setitem(torch.backends.flags_frozen.__globals__, "flags_frozen", lambda: False)
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    yield cuda_device.CudaDevice(1 << 12)
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


@pytest.mark.parametrize(
    ("precision", "products", "convolutions"),
    [("ieee", False, False), ("default", False, True), ("tf32", True, True)],
)
def test_tf32_is_on_where_the_precision_says(
    device: cuda_device.CudaDevice, precision: Precision, products: bool, convolutions: bool
) -> None:
    for first in (False, True):
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = first
        device.prepare(precision)
        assert torch.backends.cuda.matmul.allow_tf32 == products
        assert torch.backends.cudnn.allow_tf32 == convolutions
