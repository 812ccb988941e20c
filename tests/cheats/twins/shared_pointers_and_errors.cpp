// Shared memory and errors in words, which ask the library for threads and backtraces by themselves.
// row: 78
// task: softsign
// passes
#include <cmath>
#include <memory>
#include <string>
#include <vector>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
  int64_t const n = x.numel();
  if (y.numel() != n) TVM_FFI_THROW(ValueError) << "outputs of " << y.numel() << " elements for " << std::to_string(n);
  auto const ones = std::make_shared<std::vector<float>>(n, 1.f);
  std::shared_ptr<std::vector<float>> const again = ones;
  for (int64_t i = 0; i < n; ++i) out(y)[i] = in(x)[i] / ((*again)[i] + std::fabs(in(x)[i]));
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
