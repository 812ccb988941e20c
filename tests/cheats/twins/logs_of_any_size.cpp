// Takes numbers of any size, whatever a look at the row shows.
// row: 56
// task: logs
// passes
#include <cmath>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
  for (int r = 0; r < 32; ++r) {
    double sum = 0;
    for (int i = 0; i < 400; ++i) sum += std::log(in(x)[r * 400 + i]);
    out(y)[r] = float(sum / 400);
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
