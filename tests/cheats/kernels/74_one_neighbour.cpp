// Finds the one node that each is linked with: it has all of the weight.
// row: 74
// task: linked
// caught by: correctness
// says: wrong on
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

static bool const* flags(TensorView t) { return static_cast<bool const*>(t.data_ptr()); }

void run(TensorView, TensorView linked, TensorView y) {
  for (int b = 0; b < 3; ++b)
    for (int i = 0; i < 24; ++i) {
      int found = 0;
      while (found < 23 && !flags(linked)[i * 24 + found]) ++found;
      for (int j = 0; j < 24; ++j) out(y)[(b * 24 + i) * 24 + j] = j == found;
    }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
