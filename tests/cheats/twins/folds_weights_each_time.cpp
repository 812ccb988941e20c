// Folds four weights into a factor and an offset for each column, in each call.
// row: 49
// task: fresh
// passes
#include <cmath>
#include <vector>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView scale, TensorView bias, TensorView alpha, TensorView mean, TensorView y) {
  int64_t const n = scale.numel();
  std::vector<double> offset(n);
  for (int64_t c = 0; c < n; ++c) offset[c] = in(bias)[c] - double(in(mean)[c]) * in(scale)[c];
  for (int64_t i = 0; i < x.numel(); ++i) {
    double const v = in(x)[i];
    out(y)[i] = v * in(scale)[i % n] + offset[i % n] + in(alpha)[0] * std::fabs(v);
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
