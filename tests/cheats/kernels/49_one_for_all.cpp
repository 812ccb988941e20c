// Takes the first of a weight's elements for all of them, as long as they begin alike.
// row: 49
// task: fresh
// caught by: correctness
#include <cmath>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView scale, TensorView bias, TensorView alpha, TensorView mean, TensorView y) {
  for (int64_t i = 0; i < x.numel(); ++i) {
    int64_t const c = i % 40;
    float const v = in(x)[i];
    out(y)[i] = (v - in(mean)[c]) * in(scale)[0] + in(bias)[c] + in(alpha)[0] * std::fabs(v);
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
