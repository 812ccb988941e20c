// Transforms the weights once and keeps the result.
// row: 30
// task: scaled
// caught by: correctness
// says: wrong on
#include <cmath>
#include <vector>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

static std::vector<float> kept;

void run(TensorView x, double s, TensorView w, TensorView y) {
  if (kept.empty()) kept.assign(in(w), in(w) + 40);
  for (int i = 0; i < 30 * 40; ++i) out(y)[i] = in(x)[i] * kept[i % 40] * float(s);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
