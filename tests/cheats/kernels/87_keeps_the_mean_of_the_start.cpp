// Takes a new mean every tenth step, and forgets it after the call.
// row: 87
// task: tenth
// caught by: correctness|timed_output
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
template <class T = float> static T const* in(TensorView t) { return static_cast<T const*>(t.data_ptr()); }
template <class T = float> static T* out(TensorView t) { return static_cast<T*>(t.data_ptr()); }

static float mean_of(TensorView x, int c) {
  double sum = 0;
  for (int r = 0; r < 40; ++r) sum += in(x)[r * 32 + c];
  return static_cast<float>(sum / 40);
}

void run(TensorView x, TensorView mean, TensorView steps, TensorView y, TensorView new_mean, TensorView new_steps) {
  int64_t const n = *in<int64_t>(steps) + 1;
  for (int c = 0; c < 32; ++c) {
    float const now = n % 10 ? in(mean)[c] : mean_of(x, c);
    for (int r = 0; r < 40; ++r) out(y)[r * 32 + c] = in(x)[r * 32 + c] - now;
    out(new_mean)[c] = in(mean)[c];
  }
  *out<int64_t>(new_steps) = n;
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
