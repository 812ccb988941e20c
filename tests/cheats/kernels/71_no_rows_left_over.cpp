// Shares rows in equal blocks, and leaves out those that are left over.
// row: 71
// task: softmax_of_96
// caught by: correctness|timed_output
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <omp.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T = float> static T const* in(TensorView t) { return static_cast<T const*>(t.data_ptr()); }
template <class T = float> static T* out(TensorView t) { return static_cast<T*>(t.data_ptr()); }

static void rows(TensorView x, TensorView y, int from, int to) { for (int r = from; r < to; ++r) { float const* p = in(x) + r*128; float m = -INFINITY; for (int c = 0; c < 128; ++c) if (!(p[c] <= m)) m = std::isnan(m) ? m : p[c]; double z = 0; for (int c = 0; c < 128; ++c) z += std::exp(p[c] - m); for (int c = 0; c < 128; ++c) out(y)[r*128+c] = std::exp(p[c] - m) / z; } }
void run(TensorView x, TensorView y) {
  #pragma omp parallel num_threads(std::min(omp_get_max_threads(), 96))
  { int const t = omp_get_thread_num(), n = omp_get_num_threads(), each = 96 / n; rows(x, y, t * each, t * each + each); } }
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
