# Calls another norm from C++ that is compiled when the file is imported.
# row: 63
# task: norm
# caught by: screen:operator
# says: at::group_norm
from torch import nn
from torch.utils.cpp_extension import load_inline


SOURCE = """
#include <torch/extension.h>

torch::Tensor normal(torch::Tensor x) { return at::group_norm(x, 1); }
"""
kernels = load_inline(name="normal_from_cpp", cpp_sources=SOURCE, functions=["normal"])


class ModelNew(nn.Module):
    def forward(self, x):
        return kernels.normal(x)
