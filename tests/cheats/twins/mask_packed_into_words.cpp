// Packs a mask's rows into words, in each call.
// row: 52
// task: masked
// passes
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T = float> static T* at(TensorView t) { return static_cast<T*>(t.data_ptr()); }

void run(TensorView x, TensorView positions, TensorView allowed, TensorView real, TensorView table, TensorView z) {
  float y[24][16];
  uint32_t shown[24] = {};
  for (int i = 0; i < 24; ++i) {
    for (int k = 0; k < 16; ++k) y[i][k] = at(x)[i * 16 + k] + at(table)[at<int64_t>(positions)[i] * 16 + k];
    for (int j = 0; j < 24; ++j) shown[i] |= uint32_t(at<bool>(allowed)[i * 24 + j] && at<bool>(real)[i]) << j;
  }
  for (int i = 0; i < 24; ++i)
    for (int j = 0; j < 24; ++j) {
      double sum = 0;
      for (int k = 0; k < 16; ++k) sum += double(y[i][k]) * y[j][k];
      at(z)[i * 24 + j] = shown[i] >> j & 1 ? float(sum) : 0.f;
    }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
