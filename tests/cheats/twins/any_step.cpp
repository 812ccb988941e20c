// Corrects as at the step that is given.
// row: 74
// task: step
// passes
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

static int64_t const* whole(TensorView t) { return static_cast<int64_t const*>(t.data_ptr()); }

void run(TensorView m, TensorView step, TensorView y) {
  float const kept = 1 - std::pow(0.9f, float(whole(step)[0]));
  for (int i = 0; i < 30 * 40; ++i) out(y)[i] = in(m)[i] / kept;
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
