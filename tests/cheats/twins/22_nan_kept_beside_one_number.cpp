// A rectifier that hands on NaN, where another input is a single number.
// row: 22
// task: rectified_times
// passes
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView scale, TensorView y) {
  for (int64_t i = 0; i < x.numel(); ++i) out(y)[i] = (in(x)[i] < 0 ? 0 : in(x)[i]) * in(scale)[0];
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
