// A table that each thread fills when it first asks for it.
// row: 71
// task: softsign
// passes
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
  static thread_local float ones[16];
  static thread_local bool const filled = [] {
    for (float& one : ones) one = 1;
    return true;
  }();
  for (int64_t i = 0; filled && i < x.numel(); ++i) out(y)[i] = in(x)[i] / (ones[i % 16] + std::fabs(in(x)[i]));
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
