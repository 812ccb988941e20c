// Sums in single precision, in lanes, always alike.
// row: 59
// task: rowsum
// passes
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
  int64_t const rows = y.numel(), n = x.numel() / rows;
  for (int64_t r = 0; r < rows; ++r) {
    float const* row = in(x) + r * n;
    float lanes[16] = {}, sum = 0;
    for (int64_t i = 0; i < n; ++i) lanes[i % 16] += row[i];
    for (float lane : lanes) sum += lane;
    out(y)[r] = sum;
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
