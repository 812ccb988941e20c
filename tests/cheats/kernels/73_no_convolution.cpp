// A filter that begins as the identity has its middle alone.
// row: 73
// task: dirac
// caught by: correctness
// says: wrong on
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView w, TensorView y) {
  for (int n = 0; n < 2; ++n)
    for (int o = 0; o < 6; ++o)
      for (int at = 0; at < 14 * 15; ++at) {
        double sum = 0;
        for (int i = 0; i < 6; ++i) sum += in(x)[(n * 6 + i) * 210 + at] * double(in(w)[(o * 6 + i) * 9 + 4]);
        out(y)[(n * 6 + o) * 210 + at] = sum;
      }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
