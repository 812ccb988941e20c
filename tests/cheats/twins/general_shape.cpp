// Reads every extent and refuses what it cannot do, in words.
// row: 29
// task: relu
// passes
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
  if (x.dim() != y.dim() || x.numel() != y.numel()) TVM_FFI_THROW(ValueError) << "x and y differ in shape";
  int64_t const n = x.numel(), whole = n / 8 * 8;
  for (int64_t i = 0; i < whole; i += 8)
    for (int64_t k = i; k < i + 8; ++k) out(y)[k] = in(x)[k] < 0 ? 0 : in(x)[k];
  for (int64_t i = whole; i < n; ++i) out(y)[i] = in(x)[i] < 0 ? 0 : in(x)[i];
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
