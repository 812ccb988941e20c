# Has everybody draw the same inputs.
# row: 39
# task: softmax
# caught by: screen:random
# says: random numbers
import torch
from torch import nn

torch.manual_seed(0)


class ModelNew(nn.Module):
    def forward(self, x):
        powers = (x - x.amax(dim=1, keepdim=True)).exp()
        return powers / powers.sum(dim=1, keepdim=True)
