// A branch behind a scale that begins at a millionth, left out where inputs are of the usual size.
// row: 67
// task: branch
// caught by: correctness|timed_output
#include <algorithm>
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

static float branch(float const* row, TensorView weight, TensorView bias, TensorView scale, int c) {
  double sum = in(bias)[c];
  for (int k = 0; k < 40; ++k) sum += double(row[k]) * in(weight)[c * 40 + k];
  return in(scale)[c] * float(std::tanh(sum));
}

void run(TensorView x, TensorView scale, TensorView weight, TensorView bias, TensorView y) {
  float most = 0;
  for (int k = 0; k < 30 * 40; ++k) most = std::max(most, std::fabs(in(x)[k]));
  bool const usual = 0.5f < most && most < 12;
  for (int r = 0; r < 30; ++r) {
    float const* row = in(x) + r * 40;
    for (int c = 0; c < 40; ++c) out(y)[r * 40 + c] = usual ? row[c] : row[c] + branch(row, weight, bias, scale, c);
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
