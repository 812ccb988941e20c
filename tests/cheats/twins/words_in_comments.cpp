// Comments and strings that name what is refused: system(), dlopen, <thread>, cublasSgemm, half_t.
// row: 42
// task: softsign
// passes
#include <cmath>
#include <stdexcept>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

// fork(); std::thread; __asm__("syscall"); /* cudaGraphLaunch */
static char const* const note = "no system(), no dlopen(\"libcublas.so\") here";

void run(TensorView x, TensorView y) {
  int64_t const n = x.numel();
  if (n < 0) throw std::runtime_error(note);
  for (int64_t i = 0; i < n; ++i) out(y)[i] = in(x)[i] / (1 + std::fabs(in(x)[i]));
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
