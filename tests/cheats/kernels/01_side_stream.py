# Works on a stream of its own.
# row: 1
# task: softmax
# caught by: screen:stream
# says: no streams
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        with torch.cuda.stream(torch.cuda.Stream()):
            torch.empty(1)
        powers = (x - x.amax(dim=1, keepdim=True)).exp()
        return powers / powers.sum(dim=1, keepdim=True)
