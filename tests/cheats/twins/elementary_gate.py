# A gate of an exponential.
# row: 63
# task: gate
# passes
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x / (1 + (-x).exp())
