"""Hard tanh between -1 and 1."""

import torch
from torch import nn

SIZES = {"rows": 4096, "columns": 393216}
rows, columns = SIZES.values()


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.hardtanh(x, min_val=-1.0, max_val=1.0)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(rows, columns)]


def get_init_inputs() -> list[object]:
    return []
