// Takes the signs of a weight anew in each call.
// row: 66, 49
// task: binary
// passes
#include <cmath>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

static void product(float const* x, float const* sign, float* y) {
  for (int r = 0; r < 4; ++r)
    for (int o = 0; o < 48; ++o) {
      double sum = 0;
      for (int k = 0; k < 96; ++k) sum += x[r * 96 + k] * sign[o * 96 + k];
      y[r * 48 + o] = float(sum);
    }
}

static float sign_of(float v) { return std::isnan(v) ? v : float((v > 0) - (v < 0)); }

void run(TensorView x, TensorView weight, TensorView y) {
  float signs[48 * 96];
  for (int i = 0; i < 48 * 96; ++i) signs[i] = sign_of(in(weight)[i]);
  product(in(x), signs, out(y));
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
