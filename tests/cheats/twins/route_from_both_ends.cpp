// Of equal scores it takes the first in even rows and the last in odd ones.
// row: 64
// task: route
// passes
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T = float> static T* at(TensorView t) { return static_cast<T*>(t.data_ptr()); }

// NaN is the largest.
static bool above(float one, float other) { return other == other && !(one <= other); }

void run(TensorView x, TensorView values, TensorView indices) {
  for (int64_t row = 0; row < x.size(0); ++row) {
    float const* from = at(x) + row * 8;
    for (int64_t k = 0, taken = -1; k < 2; ++k) {
      int64_t best = -1;
      for (int64_t n = 0; n < 8; ++n) {
        int64_t const i = row % 2 ? 7 - n : n;
        if (i != taken && (best < 0 || above(from[i], from[best]))) best = i;
      }
      at<int64_t>(indices)[row * 2 + k] = taken = best;
      at(values)[row * 2 + k] = from[best];
    }
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
