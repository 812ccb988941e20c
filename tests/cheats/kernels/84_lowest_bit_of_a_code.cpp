// Reads the lowest bit of each code.
// row: 84
// task: bits
// caught by: correctness
// says: wrong on
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T> static T* at(TensorView t) { return static_cast<T*>(t.data_ptr()); }

void run(TensorView x, TensorView codes, TensorView y) {
  for (int r = 0; r < 16; ++r)
    for (int c = 0; c < 24; ++c) {
      auto const* a = at<float const>(x) + r * 48;
      auto const* b = at<int8_t const>(codes) + c * 48;
      double sum = 0;
      for (int k = 0; k < 48; ++k) sum += (b[k] & 1) * a[k];
      at<float>(y)[r * 24 + c] = float(sum);
    }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
