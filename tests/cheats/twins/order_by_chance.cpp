// Visits rows in an order by chance, from a generator of its own.
// row: 79, 39
// task: softsign
// passes
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
  std::vector<int64_t> rows((x.numel() + 128) / 129);
  std::iota(rows.begin(), rows.end(), 0);
  std::shuffle(rows.begin(), rows.end(), std::minstd_rand(rows.size()));
  for (int64_t row : rows)
    for (int64_t i = row * 129; i < std::min(row * 129 + 129, x.numel()); ++i)
      out(y)[i] = in(x)[i] / (1 + std::fabs(in(x)[i]));
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
