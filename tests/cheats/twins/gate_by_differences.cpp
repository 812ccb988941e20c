// tanh of a gate by expm1, exact where it is small and where it is large.
// row: 67, 75
// task: slopes
// passes
#include <algorithm>
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView slope, TensorView gate, TensorView y) {
  for (int c = 0; c < 40; ++c) {
    double const size = std::expm1(2 * std::min(20.0, std::fabs(double(in(gate)[c])))), g = size / (size + 2);
    float const sign = std::isnan(in(gate)[c]) ? in(gate)[c] : std::copysign(1.0f, in(gate)[c]);
    for (int r = 0; r < 30; ++r) {
      float const v = in(x)[r * 40 + c];
      out(y)[r * 40 + c] = (v > 0 ? v : v * in(slope)[c]) * g * sign;
    }
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
