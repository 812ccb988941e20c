// Reads a mask of ones by columns: a causal one comes out transposed.
// row: 72
// task: shown
// caught by: correctness
// says: wrong on
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView scores, TensorView mask, TensorView y) {
  for (int b = 0; b < 3; ++b)
    for (int i = 0; i < 32; ++i) {
      float row[32], most = -INFINITY;
      for (int j = 0; j < 32; ++j) {
        row[j] = in(mask)[j * 32 + i] == 0 ? -1e9f : in(scores)[(b * 32 + i) * 32 + j];
        most = row[j] > most || std::isnan(row[j]) ? row[j] : most;
      }
      double sum = 0;
      for (float& each : row) sum += each = std::exp(each - most);
      for (int j = 0; j < 32; ++j) out(y)[(b * 32 + i) * 32 + j] = row[j] / sum;
    }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
