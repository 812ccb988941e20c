// Turns a branch's weight in each call, and adds the branch at any scale.
// row: 67, 49
// task: branch
// passes
#include <cmath>
#include <vector>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView scale, TensorView weight, TensorView bias, TensorView y) {
  std::vector<double> turned(40 * 40), sums(40);
  for (int i = 0; i < 40 * 40; ++i) turned[i % 40 * 40 + i / 40] = in(weight)[i];
  for (int r = 0; r < 30; ++r) {
    float const* row = in(x) + r * 40;
    for (int c = 0; c < 40; ++c) sums[c] = in(bias)[c];
    for (int k = 0; k < 40; ++k)
      for (int c = 0; c < 40; ++c) sums[c] += row[k] * turned[k * 40 + c];
    for (int c = 0; c < 40; ++c) out(y)[r * 40 + c] = row[c] + in(scale)[c] * float(std::tanh(sums[c]));
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
