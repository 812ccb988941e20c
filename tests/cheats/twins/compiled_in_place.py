# A C++ kernel, compiled when the file is imported.
# row: 25
# task: softmax
# passes
import torch
import tvm_ffi.cpp
from torch import nn

SOURCE = r"""
#include <cmath>
#include <tvm/ffi/container/tensor.h>

void softmax(tvm::ffi::TensorView x, tvm::ffi::TensorView y) {
  int64_t const rows = x.size(0), columns = x.size(1);
  auto from = static_cast<float const*>(x.data_ptr());
  auto to = static_cast<float*>(y.data_ptr());
  for (int64_t row = 0; row < rows; ++row, from += columns, to += columns) {
    float most = from[0];
    for (int64_t i = 1; i < columns; ++i) most = std::fmax(most, from[i]);
    double sum = 0;
    for (int64_t i = 0; i < columns; ++i) sum += to[i] = std::exp(from[i] - most);
    for (int64_t i = 0; i < columns; ++i) to[i] = float(to[i] / sum);
  }
}
"""
kernels = tvm_ffi.cpp.load_inline(name="kernels", cpp_sources=SOURCE, functions=["softmax"])


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        kernels.softmax(x, y)
        return y
