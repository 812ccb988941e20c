// The same of a mean of squares.
// row: 17
// task: squares
// passes
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView y, TensorView mean) {
  double sum = 0;
  for (int64_t i = 0; i < x.numel(); ++i) {
    float const off = in(x)[i] - in(y)[i];
    sum += double(off) * off;
  }
  out(mean)[0] = sum / x.numel();
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
