// Weighs all nodes that each is linked with.
// row: 74
// task: linked
// passes
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

static bool const* flags(TensorView t) { return static_cast<bool const*>(t.data_ptr()); }

void run(TensorView scores, TensorView linked, TensorView y) {
  for (int b = 0; b < 3; ++b)
    for (int i = 0; i < 24; ++i) {
      float row[24], most = -INFINITY;
      for (int j = 0; j < 24; ++j) {
        row[j] = flags(linked)[i * 24 + j] ? in(scores)[(b * 24 + i) * 24 + j] : -1e9f;
        most = row[j] > most || std::isnan(row[j]) ? row[j] : most;
      }
      double sum = 0;
      for (float& each : row) sum += each = std::exp(each - most);
      for (int j = 0; j < 24; ++j) out(y)[(b * 24 + i) * 24 + j] = row[j] / sum;
    }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
