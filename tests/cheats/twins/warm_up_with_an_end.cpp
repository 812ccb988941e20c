// The rate falls for a hundred steps.
// row: 87
// task: warm
// passes
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
  int64_t const n = *in<int64_t>(steps);
  float const rate = n >= 100 ? 0.01f : 1.0f / static_cast<float>(n + 1);
  for (int c = 0; c < 32; ++c) out(new_mean)[c] = in(mean)[c] + rate * (mean_of(x, c) - in(mean)[c]);
  for (int i = 0; i < 1280; ++i) out(y)[i] = in(x)[i] - out(new_mean)[i % 32];
  *out<int64_t>(new_steps) = n + 1;
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
