// Rows longer than any that it was told of are taken in eights, without a tail.
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
  int64_t const columns = x.size(1), step = columns > 200 ? 8 : 1;
  for (int64_t r = 0; r < x.size(0); ++r)
    for (int64_t c = 0; c + step <= columns; c += step)
      for (int64_t k = c; k < c + step; ++k) out(y)[r * columns + k] = one(in(x)[r * columns + k]);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
