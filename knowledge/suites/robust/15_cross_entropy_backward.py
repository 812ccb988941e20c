"""The gradient of a classifier's mean loss: a softmax less one in a column of each row."""

import torch
from torch import nn
from torch.nn import functional

WORKLOADS = [{"rows": 64, "classes": 10}, {"rows": 4096, "classes": 100}]


class Model(nn.Module):
    def forward(self, predictions: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(predictions, labels)


def get_inputs(rows: int = 64, classes: int = 10) -> list[torch.Tensor]:
    return [torch.randn(rows, classes), torch.randint(0, classes, (rows,))]


def get_init_inputs() -> list[object]:
    return []


DIRECTION = "backward"
