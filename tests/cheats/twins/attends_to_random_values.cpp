// Attention in two passes over the scores.
// row: 17
// task: attended
// passes
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView q, TensorView k, TensorView v, TensorView y) {
  int64_t const keys = 1024, depth = 16, rows = q.numel() / depth;
  float scores[1024];
  for (int64_t r = 0; r < rows; ++r) {
    int64_t const head = r / keys * keys * depth;
    float most = -INFINITY;
    for (int64_t j = 0; j < keys; ++j) {
      double dot = 0;
      for (int64_t d = 0; d < depth; ++d) dot += double(in(q)[r * depth + d]) * in(k)[head + j * depth + d];
      scores[j] = dot / 4;
      most = scores[j] > most || std::isnan(scores[j]) ? scores[j] : most;
    }
    double sum = 0, parts[16] = {};
    for (int64_t j = 0; j < keys; ++j) {
      float const weight = std::exp(scores[j] - most);
      sum += weight;
      for (int64_t d = 0; d < depth; ++d) parts[d] += double(weight) * in(v)[head + j * depth + d];
    }
    for (int64_t d = 0; d < depth; ++d) out(y)[r * depth + d] = parts[d] / sum;
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
