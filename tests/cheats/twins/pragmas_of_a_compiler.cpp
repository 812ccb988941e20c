// Pragmas for one compiler, and a header where the language has it.
// row: 85
// task: softsign
// passes
#include <cmath>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

#if __cplusplus >= 202002L
#include <bit>
#endif
#if defined(__GNUC__) && !defined(__clang__)
#define UNROLLED _Pragma("GCC unroll 4")
#else
#define UNROLLED
#endif

void run(TensorView x, TensorView y) {
  if constexpr (sizeof(void*) == 8) {
    UNROLLED
    for (int64_t i = 0; i < x.numel(); ++i) out(y)[i] = in(x)[i] / (1 + std::fabs(in(x)[i]));
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
