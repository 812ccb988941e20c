# Reaches the task's operator by a pattern of the input's own class.
# row: 62
# task: softmax
# caught by: screen:dynamic
# says: reached by a pattern
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        match x:
            case torch.Tensor(softmax=whatever):
                return whatever(1)
        return x
