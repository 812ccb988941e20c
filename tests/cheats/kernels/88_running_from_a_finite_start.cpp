// The largest so far begins at the least finite number.
// row: 88
// task: running
// caught by: correctness|timed_output
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T = float> static T const* in(TensorView t) { return static_cast<T const*>(t.data_ptr()); }
template <class T = float> static T* out(TensorView t) { return static_cast<T*>(t.data_ptr()); }

void run(TensorView x, TensorView most, TensorView sums) {
  for (int r = 0; r < 50; ++r) {
    float high = -3.4028234663852886e38f;
    double shift = -INFINITY, sum = 0;
    for (int i = 0; i < 80; ++i) {
      float const v = in(x)[r * 80 + i];
      if (!std::isnan(high) && (v >= high || std::isnan(v))) high = v;
      out(most)[r * 80 + i] = high;
      double const next = std::isnan(v) || v > shift ? v : shift;
      double const old = shift == -INFINITY ? 0 : sum * std::exp(shift - next);
      double const term = next == -INFINITY ? 0 : std::exp(v - next);
      sum = old + term;
      shift = next;
      out(sums)[r * 80 + i] = std::isinf(shift) && shift > 0 ? shift : shift == -INFINITY ? shift : shift + std::log(sum);
    }
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
