"""What a comparison of whole models ran under."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
import torch

from harness.trusted.models.conditions import conditions


def test_the_version_and_operators_that_pytorch_has_replaced_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch._native.registry", raising=False)
    assert conditions("cpu") == (
        f"PyTorch {torch.__version__} on the processor",
        "operators of eager replaced by PyTorch: none",
    )
    replaced = {("topk", "CUDA"): None, ("_fused_rms_norm", "CUDA"): None}
    monkeypatch.setitem(sys.modules, "torch._native.registry", SimpleNamespace(_aten_override_libs=replaced))
    assert conditions("cpu")[1] == "operators of eager replaced by PyTorch: _fused_rms_norm, topk"


def test_on_a_gpu_so_are_the_kernels_that_attention_and_products_are_chosen_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a GPU")
    monkeypatch.setattr(torch.backends.cuda, "cudnn_sdp_enabled", lambda: False)
    told = conditions("cuda", ("default", "max-autotune"))
    assert told[0].endswith("on a GPU")
    assert "attention chosen from flash, mem_efficient, math" in told
    assert "max-autotune's products from ATEN,TRITON,CPP" in told
