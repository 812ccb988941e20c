# A product in one character.
# row: 25
# task: matmul
# caught by: screen:operator
# says: @
from torch import nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        return a @ b
