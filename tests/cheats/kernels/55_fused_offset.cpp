// The same difference, folded into one factor and one term.
// row: 55
// task: spread
// caught by: correctness
#include <algorithm>
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
  int64_t const rows = 40, n = x.numel() / rows;
  for (int64_t r = 0; r < rows; ++r) {
    float const* row = in(x) + r * n;
    float lanes[16] = {}, squares[16] = {};
    for (int64_t i = 0; i < n; ++i) lanes[i % 16] += row[i], squares[i % 16] += row[i] * row[i];
    float sum = 0;
    for (float lane : lanes) sum += lane;
    float square = 0;
    for (float lane : squares) square += lane;
    float const mean = sum / n, spread = std::max(square / n - mean * mean, 0.0f);
    float const scale = 1 / std::sqrt(spread + 1e-5f);
    for (int64_t i = 0; i < n; ++i) out(y)[r * n + i] = std::fma(row[i], scale, -mean * scale);
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
