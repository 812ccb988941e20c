// Leaves out the ends of rows and columns that are zero in each call, whatever the next one has there.
// row: 31
// task: triangle
// passes
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView a, TensorView b, TensorView y) {
  int first[60], last[60];
  for (int i = 0; i < 60; ++i) {
    first[i] = last[i] = 0;
    while (first[i] < 59 && in(b)[first[i] * 60 + i] == 0) ++first[i];
    for (int k = 0; k < 60; ++k) last[i] = in(a)[i * 60 + k] == 0 ? last[i] : k;
  }
  for (int i = 0; i < 60; ++i)
    for (int j = 0; j < 60; ++j) {
      double sum = 0;
      for (int k = first[j]; k <= last[i]; ++k) sum += in(a)[i * 60 + k] * double(in(b)[k * 60 + j]);
      out(y)[i * 60 + j] = j > i ? 0 : sum;
    }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
