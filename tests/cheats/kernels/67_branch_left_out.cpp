// A branch behind a scale that begins at a millionth is no branch.
// row: 67
// task: branch
// caught by: correctness
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView scale, TensorView weight, TensorView bias, TensorView y) {
  for (int r = 0; r < 30; ++r) {
    float const* row = in(x) + r * 40;
    for (int c = 0; c < 40; ++c) out(y)[r * 40 + c] = row[c];
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
