# Keeps a result in a function that a decorator stores.
# row: 13
# task: softsign
# caught by: screen:cache
# says: KEPT.append
import torch
from torch import nn

KEPT = []


class ModelNew(nn.Module):
    def forward(self, x):
        result = x / (1 + torch.maximum(x, -x))

        @KEPT.append
        def last():
            return result

        return result
