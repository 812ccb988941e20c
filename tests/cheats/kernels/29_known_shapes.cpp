// Knows the sizes that it was told, all of which have no tail.
// row: 29
// task: sizes
// caught by: correctness
// says: wrong on
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
  for (int64_t i = 0; i + 16 <= x.numel(); i += 16)
    for (int64_t k = i; k < i + 16; ++k) out(y)[k] = in(x)[k] / (1 + std::fabs(in(x)[k]));
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
