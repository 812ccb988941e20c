"""Ten tasks of narrow types that people run, written down before any was tried: none is KernelBench's."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from everyday import _randn, _whole
from ir_cases import Case
from torch import Tensor

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2


def rows_quantized(x: Tensor) -> tuple[Tensor, Tensor]:
    """Each token to float8 by its own largest magnitude."""
    scale = x.abs().amax(-1, keepdim=True).float().clamp(min=1e-12) / 448.0
    return (x.float() / scale).to(E4M3), scale


def groups_quantized(x: Tensor) -> tuple[Tensor, Tensor]:
    """DeepSeek's activations: a scale for each group of a row, which is a power of two."""
    groups = x.unflatten(-1, (-1, 8))
    scale = torch.exp2((groups.abs().amax(-1, keepdim=True).clamp(min=1e-4) / 448.0).log2().ceil())
    return (groups / scale).clamp(-448.0, 448.0).flatten(-2).to(E4M3), scale[..., 0]


def gradients_quantized(x: Tensor, scale: Tensor) -> Tensor:
    """Delayed scaling: the scale is given, and what is too large becomes infinite."""
    return (x * scale).to(E5M2)


def dequantized_residual(x: Tensor, scale: Tensor, residual: Tensor) -> Tensor:
    return (x.float() * scale + residual.float()).to(residual.dtype)


def normed_blocks(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """RMS norm, then a scale for each block of a row."""
    y = (x.float() * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + 1e-6) * weight.float()).unflatten(
        -1, (4, -1)
    )
    scale = y.abs().amax(-1, keepdim=True) / torch.finfo(E4M3).max
    return (y / scale).to(E4M3).flatten(-2), scale.squeeze(-1)


def weights_in_float8(x: Tensor, weight: Tensor, scale: Tensor) -> Tensor:
    """A linear layer on float8 weights with a scale a row."""
    return F.linear(x, weight.to(x.dtype)) * scale


def packed_rows(x: Tensor, packed: Tensor, scale: Tensor) -> Tensor:
    """Signed weights, eight in a 32-bit word, a scale a row: a nibble is moved to the top and back."""
    places = torch.arange(0, 32, 4, dtype=torch.int32)
    weight = ((packed[..., None] << (28 - places)) >> 28).flatten(1).to(x.dtype)
    return x @ weight.t() * scale


def packed_groups(x: Tensor, packed: Tensor, zeros: Tensor, scale: Tensor) -> Tensor:
    """GPTQ's layout: eight weights down a column in a word, zeros eight in a row, a group's scale."""
    places = torch.arange(0, 32, 4, dtype=torch.int32)
    weight = (packed[:, None] >> places[:, None]).bitwise_and(15).flatten(0, 1)
    zero = ((zeros[..., None] >> places) & 15).flatten(1)
    group = weight.shape[0] // scale.shape[0]
    return x @ ((weight - zero.repeat_interleave(group, 0)) * scale.repeat_interleave(group, 0))


def narrow_cache(q: Tensor, k: Tensor, v: Tensor, scale: Tensor) -> Tensor:
    """Attention over keys and values that a cache holds in float8."""
    keys, values = k.to(q.dtype) * scale[0], v.to(q.dtype) * scale[1]
    return (q @ keys.transpose(-1, -2) / math.sqrt(q.shape[-1])).softmax(-1) @ values


def gated_quantized(x: Tensor) -> tuple[Tensor, Tensor]:
    """SwiGLU, then a row's scale: what goes into the second product of a float8 layer."""
    gate, up = x.chunk(2, -1)
    y = F.silu(gate.float()) * up.float()
    scale = (y.abs().amax(-1, keepdim=True) / 448.0).clamp(min=1e-10)
    return torch.clamp(y * scale.reciprocal(), -448.0, 448.0).to(E4M3), scale


TEN: dict[str, Case] = {
    "rows quantized": Case(rows_quantized, (_randn(5, 40).bfloat16(),)),
    "groups quantized": Case(groups_quantized, (_randn(3, 4, 32) * 10,)),
    "gradients quantized": Case(gradients_quantized, (_randn(6, 33) * 30, torch.tensor(2000.0))),
    "dequantized residual": Case(dequantized_residual, (_randn(4, 24).to(E4M3), _randn(4, 1).abs(),
                                                        _randn(4, 24).bfloat16())),
    "normed blocks": Case(normed_blocks, (_randn(3, 32).bfloat16(), _randn(32).bfloat16())),
    "weights in float8": Case(weights_in_float8, (_randn(4, 16), _randn(6, 16).to(E4M3), _randn(6).abs())),
    "packed rows": Case(packed_rows, (_randn(3, 24), _whole(2**31, 5, 3).int() - 2**30, _randn(5).abs())),
    "packed groups": Case(packed_groups, (_randn(3, 16), _whole(2**31, 2, 8).int(), _whole(2**31, 4, 1).int(),
                                          _randn(4, 8).abs())),
    "narrow cache": Case(narrow_cache, (_randn(2, 3, 2, 8), _randn(2, 3, 9, 8).to(E4M3), _randn(2, 3, 9, 8).to(E5M2),
                                        torch.tensor([0.5, 2.0]))),
    "gated quantized": Case(gated_quantized, (_randn(4, 48),)),
}  # fmt: skip
