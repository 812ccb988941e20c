// Copies where every weight is as at first, which it checks whole in each call.
// row: 49
// task: fresh
// passes
#include <algorithm>
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

static bool all(TensorView t, float value) {
  return std::all_of(in(t), in(t) + t.numel(), [value](float v) { return v == value; });
}

void run(TensorView x, TensorView scale, TensorView bias, TensorView alpha, TensorView mean, TensorView y) {
  bool const plain = all(scale, 1) && all(bias, 0) && all(alpha, 0) && all(mean, 0);
  for (int64_t i = 0; i < x.numel(); ++i) {
    int64_t const c = i % scale.numel();
    float const v = in(x)[i], size = std::fabs(v);
    out(y)[i] = plain ? v + 0 * size : (v - in(mean)[c]) * in(scale)[c] + in(bias)[c] + in(alpha)[0] * size;
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
