// Options that change no value, in pieces; a variable called mode.
// row: 26
// task: rowsum
// passes
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

__attribute__((optimize("O2", "unroll-" "loops"))) static double total(float const* from, int n) {
  double sum = 0;
  for (int i = 0; i < n; ++i) sum += from[i];
  return sum;
}

void run(TensorView x, TensorView y) {
  int const mode = 4000;
  for (int64_t r = 0; r < y.numel(); ++r) out(y)[r] = float(total(in(x) + r * mode, mode));
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
