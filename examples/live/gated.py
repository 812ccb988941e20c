"""A live module made faster as a whole, and held against itself: python examples/live/gated.py [SECONDS]"""

from __future__ import annotations

import sys
from typing import Any

import torch
from cutegen import accelerate
from torch import nn


class Gated(nn.Module):
    """Two residual layers, each a norm and a gate."""

    def __init__(self, width: int = 1024) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.gates = nn.ParameterList([torch.randn(width), torch.randn(width)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x is (rows, width)."""
        for norm, gate in zip(self.norms, self.gates, strict=True):
            y = norm(x)
            x = x + y * torch.sigmoid(y * gate)
        return x


def main(seconds: float, **more: Any) -> float:
    """Say what was found. The result: the largest difference between the fast module's results and the module's own."""
    module, x = Gated().eval(), torch.randn(2048, 1024)
    result = accelerate(module, (x,), budget=seconds, **more)
    fast = result.module()
    with torch.no_grad():
        difference = float((fast(x) - module(x)).abs().max())
    gain = f"{result.speedup:.2f}x over eager" if result.speedup else "left as it is"
    sys.stdout.write(f"{gain}, largest difference {difference:.1e}; {result.folder}\n")
    return difference


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 120.0)
