// -infinity less -infinity: NaN where a row is masked as a whole.
// row: 87
// task: extremes
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

void run(TensorView x, TensorView most, TensorView least, TensorView logsum) {
  for (int r = 0; r < 64; ++r) {
    float const* row = in(x) + r * 500;
    float high = -INFINITY, low = INFINITY;
    double sum = 0;
    bool broken = false;
    for (int i = 0; i < 500; ++i) {
      broken |= std::isnan(row[i]);
      high = std::max(high, row[i]);
      low = std::min(low, row[i]);
    }
    for (int i = 0; i < 500; ++i) sum += std::exp(row[i] - high);
    out(most)[r] = broken ? NAN : high;
    out(least)[r] = broken ? NAN : low;
    out(logsum)[r] = broken ? NAN : high == INFINITY ? high : high + static_cast<float>(std::log(sum));
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
