// A row is copied to where the largest declared one has room.
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
  float row[128];
  int64_t const columns = x.size(1), most = columns < 128 ? columns : 128;
  for (int64_t r = 0; r < x.size(0); ++r) {
    for (int64_t c = 0; c < most; ++c) row[c] = in(x)[r * columns + c];
    for (int64_t c = 0; c < columns; ++c) out(y)[r * columns + c] = one(row[c < most ? c : most - 1]);
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
