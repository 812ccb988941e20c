"""The gradient of a window's largest element. Many are equal."""

import torch
import torch.nn.functional as F


class Model(torch.nn.Module):
    def forward(self, x):
        return F.max_pool2d(x, 2)


def get_inputs():
    return [torch.randint(0, 5, (4, 8, 24, 24)).float()]


DIRECTION = "backward"
