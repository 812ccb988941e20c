// A polynomial for exp behind a reduction of its argument: right everywhere.
// row: 27
// task: softmax
// passes
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

static double power(double v) {
  if (v < -700) return 0;
  double const whole = std::nearbyint(v * 1.4426950408889634), rest = v - whole * 0.6931471805599453;
  double term = 1, sum = 1;
  for (int k = 1; k < 12; ++k) sum += term *= rest / k;
  return std::ldexp(sum, int(whole));
}

void run(TensorView x, TensorView y) {
  for (int row = 0; row < 6; ++row) {
    float const* from = in(x) + row * 3000;
    double most = from[0], sum = 0;
    for (int i = 1; i < 3000; ++i) most = std::fmax(most, double(from[i]));
    for (int i = 0; i < 3000; ++i) sum += power(from[i] - most);
    for (int i = 0; i < 3000; ++i) out(y)[row * 3000 + i] = float(power(from[i] - most) / sum);
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
