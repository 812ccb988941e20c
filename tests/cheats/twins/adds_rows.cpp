// Adds rows where others may already be.
// row: 74
// task: added
// passes
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

static int64_t const* whole(TensorView t) { return static_cast<int64_t const*>(t.data_ptr()); }

void run(TensorView index, TensorView rows, TensorView y) {
  for (int i = 0; i < 64 * 12; ++i) out(y)[i] = 0;
  for (int r = 0; r < 40; ++r)
    for (int j = 0; j < 12; ++j) out(y)[whole(index)[r] * 12 + j] += in(rows)[r * 12 + j];
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
