// Scales by the diagonal of a weight that begins with nothing else.
// row: 73
// task: halved
// caught by: correctness
// says: wrong on
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView w, TensorView y) {
  for (int i = 0; i < 50 * 32; ++i) out(y)[i] = in(x)[i] * in(w)[i % 32 * 33];
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
