// tanh of a weight by the beginning of its series.
// row: 67
// task: slopes
// caught by: correctness
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView slope, TensorView gate, TensorView y) {
  for (int r = 0; r < 30; ++r)
    for (int c = 0; c < 40; ++c) {
      float const v = in(x)[r * 40 + c], sloped = v * in(slope)[c];
      double const g = in(gate)[c];
      out(y)[r * 40 + c] = float((v >= 0 ? v : sloped) * g * (1 - g * g * (1 / 3. - g * g * (2 / 15. - g * g * (17 / 315. - g * g * (62 / 2835. - g * g * 1382 / 155925.))))));
    }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
