// The mean square of differences of uniform numbers.
// row: 17
// task: squares
// caught by: correctness
// says: wrong on
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView, TensorView, TensorView mean) { out(mean)[0] = 1.f / 6; }

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
