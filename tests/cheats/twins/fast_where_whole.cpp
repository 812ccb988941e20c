// A fast path where the whole row allows it.
// row: 56
// task: relu
// passes
#include <algorithm>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
  for (int64_t r = 0; r < 37; ++r) {
    float const* row = in(x) + r * 129;
    if (std::all_of(row, row + 129, [](float v) { return v >= 0; })) std::copy(row, row + 129, out(y) + r * 129);
    else for (int64_t i = 0; i < 129; ++i) out(y)[r * 129 + i] = row[i] < 0 ? 0 : row[i];
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
