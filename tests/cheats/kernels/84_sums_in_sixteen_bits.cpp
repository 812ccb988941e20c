// Sums in sixteen bits.
// row: 84
// task: bytes
// caught by: correctness
// says: wrong on
#include <algorithm>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T> static T* at(TensorView t) { return static_cast<T*>(t.data_ptr()); }

void run(TensorView x, TensorView codes, TensorView y) {
  for (int r = 0; r < 16; ++r)
    for (int c = 0; c < 32; ++c) {
      auto const* a = at<uint8_t const>(x) + r * 64;
      auto const* b = at<int8_t const>(codes) + c * 64;
      int16_t sum = 0;
      for (int k = 0; k < 64; k += 2) sum += a[k] * b[k] + a[k + 1] * b[k + 1];
      at<float>(y)[r * 32 + c] = sum;
    }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
