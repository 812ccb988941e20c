// Memory in many small pieces, freed in another order.
// row: 70, 79
// task: softsign
// passes
#include <cmath>
#include <memory>
#include <utility>
#include <vector>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
  int64_t const n = x.numel();
  std::vector<std::unique_ptr<float[]>> rows;
  for (int64_t i = 0; i < n; i += 129) {
    rows.push_back(std::make_unique<float[]>(129));
    for (int64_t j = 0; j < 129 && i + j < n; ++j) rows.back()[j] = 1 + std::fabs(in(x)[i + j]);
  }
  for (int64_t i = 0; i < n; ++i) out(y)[i] = in(x)[i] / rows[i / 129][i % 129];
  for (size_t i = 0; i + 1 < rows.size(); i += 2) rows[i].reset();
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
