// The end of a row is a whole line of it, which takes for granted that there is one.
// row: 81
// task: sizes
// caught by: correctness|out_of_bounds|signal
// says: Workload all by turns: with x (
#include <cmath>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }
static float one(float v) { return v / (1 + std::fabs(v)); }

void run(TensorView x, TensorView y) {
  int64_t const columns = x.size(1);
  for (int64_t r = 0; r < x.size(0); ++r)
    for (int64_t c = 0; c < columns; c += 32) {
      int64_t const first = c + 32 <= columns ? c : columns - 32;
      for (int64_t k = first; k < first + 32; ++k) {
        int64_t const at = r * columns + k;
        if (at >= 0) out(y)[at] = one(in(x)[k < 0 ? r * columns : at]);
      }
    }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
