// A rectifier behind a product that turns NaN into zero.
// row: 22
// task: matmul_relu
// caught by: correctness
// says: wrong on special inputs
#include <cmath>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView a, TensorView b, TensorView y) {
  for (int64_t row = 0; row < 24; ++row) {
    for (int64_t column = 0; column < 40; ++column) {
      double sum = 0;
      for (int64_t k = 0; k < 96; ++k) sum += double(in(a)[row * 96 + k]) * double(in(b)[k * 40 + column]);
      out(y)[row * 40 + column] = std::fmax(float(sum), 0.0f);
    }
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
