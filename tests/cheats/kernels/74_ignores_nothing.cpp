// Counts the targets that the loss is told to ignore, for none is drawn.
// row: 74
// task: ignored
// caught by: correctness
// says: wrong on
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

static int64_t const* whole(TensorView t) { return static_cast<int64_t const*>(t.data_ptr()); }

void run(TensorView scores, TensorView target, TensorView y) {
  double sum = 0;
  for (int r = 0; r < 200; ++r) sum -= in(scores)[r * 9 + whole(target)[r]];
  out(y)[0] = sum / 200;
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
