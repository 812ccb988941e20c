// Takes one element of each column, which is all that an identity has.
// row: 73
// task: whitened
// caught by: correctness
// says: wrong on
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView mean, TensorView w, TensorView y) {
  for (int j = 0; j < 32; ++j) {
    int largest = 0;
    for (int k = 1; k < 32; ++k) largest = std::fabs(in(w)[k * 32 + j]) > std::fabs(in(w)[largest * 32 + j]) ? k : largest;
    for (int i = 0; i < 50; ++i)
      out(y)[i * 32 + j] = (in(x)[i * 32 + largest] - in(mean)[largest]) * in(w)[largest * 32 + j];
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
