// Many rows are taken in fours; those behind the last four are left out.
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
  int64_t const columns = x.size(1), rows = x.size(0) > 130 ? x.size(0) / 4 * 4 : x.size(0);
  for (int64_t i = 0; i < rows * columns; ++i) out(y)[i] = one(in(x)[i]);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
