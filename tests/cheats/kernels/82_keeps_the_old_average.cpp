// Returns the right result, and the average as it was.
// row: 82
// task: averages
// caught by: correctness
// says: new_average is wrong
#include <cmath>
#include <cstdint>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }
static int64_t const* whole(TensorView t) { return static_cast<int64_t const*>(t.data_ptr()); }
static int64_t* whole_out(TensorView t) { return static_cast<int64_t*>(t.data_ptr()); }

void run(TensorView x, TensorView average, TensorView steps, TensorView y, TensorView new_average,
         TensorView new_steps) {
  for (int j = 0; j < 40; ++j) {
    double sum = 0;
    for (int i = 0; i < 96; ++i) sum += in(x)[i * 40 + j];
    float const mean = sum / 96, old = in(average)[j], updated = 0.75f * old + 0.25f * mean;
    for (int i = 0; i < 96; ++i) out(y)[i * 40 + j] = in(x)[i * 40 + j] - updated;
    out(new_average)[j] = old;
  }
  whole_out(new_steps)[0] = whole(steps)[0] + 1;
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
