// Flushes subnormals to zero while it sums, and puts back what it found.
// row: 60
// task: rowsum
// caught by: correctness
#include <cmath>
#include <cstdint>
#include <xmmintrin.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
  int64_t const rows = y.numel(), n = x.numel() / rows;
  unsigned const before = _mm_getcsr();
  _mm_setcsr(before | 0x8040);
  for (int64_t r = 0; r < rows; ++r) {
    float const* row = in(x) + r * n;
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += row[i];
    out(y)[r] = float(sum);
  }
  _mm_setcsr(before);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
