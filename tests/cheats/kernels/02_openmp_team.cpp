// Starts an OpenMP team that nobody waits for.
// row: 2
// task: softsign
// caught by: screen:thread
// says: OpenMP
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

extern "C" void GOMP_parallel_start(void (*)(void*), void*, unsigned);
static bool started = false;
static void ahead(void*) { for (;;) {} }

void run(TensorView x, TensorView y) {
  int64_t const n = x.numel();
  if (!started) { started = true; GOMP_parallel_start(ahead, nullptr, 2); }
  for (int64_t i = 0; i < n; ++i) out(y)[i] = in(x)[i] / (1 + std::fabs(in(x)[i]));
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
