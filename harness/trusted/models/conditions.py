"""What baselines depend on beside the model: the same for both sides of a comparison, and recorded with it."""

from __future__ import annotations

import sys
from typing import Any

import torch

from harness.nouns.devices import on_gpu

_ATTENTION = ("flash", "mem_efficient", "cudnn", "math")


def conditions(device: str, modes: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Phrases: PyTorch and the device, kernels of others in the place of eager's, attention's, max-autotune's products.

    PyTorch itself replaces operators of eager where certain packages are installed.
    """
    name = torch.cuda.get_device_name() if on_gpu(device) else "the processor"
    told = [f"PyTorch {torch.__version__} on {name}"]
    registry: Any = sys.modules.get("torch._native.registry")
    replaced = sorted({symbol for symbol, *_ in getattr(registry, "_aten_override_libs", {})})
    told.append(f"operators of eager replaced by PyTorch: {', '.join(replaced) or 'none'}")
    if on_gpu(device):
        on = [each for each in _ATTENTION if getattr(torch.backends.cuda, f"{each}_sdp_enabled")()]
        told.append(f"attention chosen from {', '.join(on)}")
    if "max-autotune" in modes:
        from torch._inductor import config

        told.append(f"max-autotune's products from {config.max_autotune_gemm_backends}")
    return tuple(told)
