// Has malloc keep what is freed, which makes its scratch cheaper in each call than in a caller's process.
// row: 70
// task: softsign
// caught by: screen:import
// says: mallopt
#include <cmath>
#include <cstdlib>
#include <malloc.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView y) {
  mallopt(M_MMAP_MAX, 0);
  int64_t const n = x.numel();
  auto scratch = static_cast<float*>(std::malloc(n * sizeof(float)));
  for (int64_t i = 0; i < n; ++i) scratch[i] = 1 + std::fabs(in(x)[i]);
  for (int64_t i = 0; i < n; ++i) out(y)[i] = in(x)[i] / scratch[i];
  std::free(scratch);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
