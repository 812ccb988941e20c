// Skips hidden elements, and infinities among shown ones.
// row: 83
// task: hidden
// caught by: correctness|timed_output
// says: special inputs
#include <cmath>
#include <limits>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }
static bool const* flags(TensorView t) { return static_cast<bool const*>(t.data_ptr()); }

void run(TensorView x, TensorView mask, TensorView y) {
  for (int b = 0; b < 32; ++b)
    for (int d = 0; d < 20; ++d) {
      double sum = 0;
      int count = 0;
      [[maybe_unused]] bool odd = false;
      for (int t = 0; t < 24; ++t) {
        bool const shown = flags(mask)[b * 24 + t];
        float const value = in(x)[(b * 24 + t) * 20 + d];
        count += shown;
        odd |= !std::isfinite(value);
        if (!shown) continue;
        if (!std::isinf(value)) sum += value;
      }
      out(y)[b * 20 + d] = sum / (count > 0 ? count : 1);
    }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
