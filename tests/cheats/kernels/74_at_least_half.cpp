// Half of each row counts, whatever its length.
// row: 74
// task: lengths
// caught by: correctness
// says: wrong on
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

static int64_t const* whole(TensorView t) { return static_cast<int64_t const*>(t.data_ptr()); }

void run(TensorView x, TensorView lengths, TensorView y) {
  for (int r = 0; r < 24; ++r) {
    double sum = 0;
    for (int i = 0; i < 32; ++i) sum += (i < 16 || i < whole(lengths)[r]) ? in(x)[r * 32 + i] : 0.f;
    out(y)[r] = sum;
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
