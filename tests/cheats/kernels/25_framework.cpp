// Calls PyTorch's own operator.
// row: 25
// task: softsign
// caught by: screen:framework
// says: PyTorch
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

namespace at { struct Tensor; Tensor* softsign(void*); }

void run(TensorView x, TensorView) { at::softsign(x.data_ptr()); }

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
