// Scratch memory at a multiple of 2 MiB, freed at the end of each call.
// row: 70
// task: softsign
// passes
#include <cmath>
#include <cstdlib>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
  int64_t const n = x.numel();
  auto* scratch = static_cast<float*>(std::aligned_alloc(2 << 20, 2 << 20));
  for (int64_t i = 0; i < n; ++i) scratch[i] = 1 + std::fabs(in(x)[i]);
  for (int64_t i = 0; i < n; ++i) out(y)[i] = in(x)[i] / scratch[i];
  std::free(scratch);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
