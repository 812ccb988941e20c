// Macros with arguments that it undefines again, and asks for once more.
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

#define STEP(offset) out(y)[i + offset] = in(x)[i + offset] / (1 + std::fabs(in(x)[i + offset]))
#define FOUR STEP(0), STEP(1), STEP(2), STEP(3)

void run(TensorView x, TensorView y) {
  int64_t i = 0;
  for (; i + 4 <= x.numel(); i += 4) FOUR;
#undef FOUR
#ifdef FOUR
#error "it is gone"
#elif defined(STEP)
  for (; i < x.numel(); ++i) STEP(0);
#endif
#undef STEP
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
