# Inline CUDA that calls the vendor's library.
# row: 25
# task: matmul
# caught by: screen:vendor_library
# says: CuTe
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

mine = load_inline(
    name="mine",
    cpp_sources="torch::Tensor mine(torch::Tensor a, torch::Tensor b);",
    cuda_sources="""
#include <torch/extension.h>
torch::Tensor mine(torch::Tensor a, torch::Tensor b) {
  auto c = torch::empty({a.size(0), b.size(1)}, a.options());
  cublasSgemm_v2(nullptr);
  return c;
}
""",
    functions=["mine"],
)


class ModelNew(nn.Module):
    def forward(self, a, b):
        return mine.mine(a, b)
