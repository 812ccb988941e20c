// A table of constants, filled at the first call: it depends on no input.
// row: 13
// task: scaled
// passes
#include <cmath>
#include <array>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, double s, TensorView w, TensorView y) {
  static std::array<float, 40> const ones = [] {
    std::array<float, 40> filled;
    for (float& one : filled) one = 1;
    return filled;
  }();
  for (int i = 0; i < 30 * 40; ++i) out(y)[i] = in(x)[i] * in(w)[i % 40] * float(s) * ones[i % 40];
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
