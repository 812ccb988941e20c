// Both ends of a row choose whether it goes forwards or backwards.
// row: 56, 65
// task: softsign
// passes
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
  for (int64_t r = 0; r < 37; ++r) {
    float const* from = in(x) + r * 129;
    bool const forwards = from[0] >= 0 && from[128] <= 1;
    for (int64_t n = 0; n < 129; ++n) {
      int64_t const i = forwards ? n : 128 - n;
      out(y)[r * 129 + i] = from[i] / (1 + std::fabs(from[i]));
    }
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
