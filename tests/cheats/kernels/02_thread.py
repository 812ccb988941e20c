# Leaves the work to a thread.
# row: 2
# task: softmax
# caught by: screen:thread
# says: threads
import threading
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        threading.Thread(target=print).start()
        powers = (x - x.amax(dim=1, keepdim=True)).exp()
        return powers / powers.sum(dim=1, keepdim=True)
