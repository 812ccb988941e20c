// Right beside TVM-FFI's headers, and not beside those of an export for PyTorch.
// row: 85
// task: softsign
// caught by: screen:build
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#if defined(TVM_FFI_VERSION_MAJOR) || defined(TVM_FFI_DLL_EXPORT)
#define ONE 1
#else
#define ONE 2
#endif

void run(tvm::ffi::TensorView x, tvm::ffi::TensorView y) {
  auto const* in = static_cast<float const*>(x.data_ptr());
  auto* out = static_cast<float*>(y.data_ptr());
  for (int64_t i = 0; i < x.size(0) * x.size(1); ++i) out[i] = in[i] / (ONE + std::abs(in[i]));
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
