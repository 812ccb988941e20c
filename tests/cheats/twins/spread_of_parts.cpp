// Means and spreads of sixteen parts of a row, which it then joins.
// row: 55
// task: spread
// passes
#include <cmath>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
  for (int64_t r = 0; r < 40; ++r) {
    float const* row = in(x) + r * 256;
    double means[16], mean = 0, squares = 0;
    for (int p = 0; p < 16; ++p) {
      double sum = 0;
      for (int i = 0; i < 16; ++i) sum += row[p * 16 + i];
      means[p] = sum / 16, mean += sum / 256;
      for (int i = 0; i < 16; ++i) squares += (row[p * 16 + i] - means[p]) * (row[p * 16 + i] - means[p]);
    }
    for (double each : means) squares += 16 * (each - mean) * (each - mean);
    for (int i = 0; i < 256; ++i) out(y)[r * 256 + i] = (row[i] - mean) / std::sqrt(squares / 256 + 1e-5);
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
