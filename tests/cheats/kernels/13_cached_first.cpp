// Keeps the first result for ever.
// row: 13
// task: softsign
// caught by: correctness
// says: wrong on
#include <cmath>
#include <vector>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

static std::vector<float> kept;

void run(TensorView x, TensorView y) {
  if (kept.empty())
    for (int64_t i = 0; i < x.numel(); ++i) kept.push_back(in(x)[i] / (1 + std::fabs(in(x)[i])));
  for (int64_t i = 0; i < x.numel(); ++i) out(y)[i] = kept[i];
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
