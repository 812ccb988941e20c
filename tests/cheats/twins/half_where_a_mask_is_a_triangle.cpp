// Leaves out half of the products where the whole mask is a triangle, which each call checks.
// row: 52, 73
// task: masked
// passes
#include <algorithm>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T = float> static T* at(TensorView t) { return static_cast<T*>(t.data_ptr()); }

void run(TensorView x, TensorView positions, TensorView allowed, TensorView real, TensorView table, TensorView z) {
  float y[24][16];
  for (int i = 0; i < 24; ++i)
    for (int k = 0; k < 16; ++k) y[i][k] = at(x)[i * 16 + k] + at(table)[at<int64_t>(positions)[i] * 16 + k];
  bool triangle = true;
  for (int i = 0; i < 24 * 24; ++i) triangle &= at<bool>(allowed)[i] == (i % 24 <= i / 24);
  std::fill_n(at(z), 24 * 24, 0.f);
  for (int i = 0; i < 24; ++i)
    for (int j = 0; j < (triangle ? i + 1 : 24); ++j) {
      double sum = 0;
      for (int k = 0; k < 16; ++k) sum += double(y[i][k]) * y[j][k];
      if (at<bool>(real)[i] && (triangle || at<bool>(allowed)[i * 24 + j])) at(z)[i * 24 + j] = sum;
    }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
