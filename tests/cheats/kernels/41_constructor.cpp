// An innocent-looking object that computes when the library is loaded, before anybody could watch.
// row: 41
// task: softsign
// caught by: screen:load_time
// says: is loaded (early
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

struct Early {
  float table[64];
  Early() {
    for (int i = 0; i < 64; ++i) table[i] = std::sin(0.1f * i * table[0]);
  }
};
static Early early;

void run(TensorView x, TensorView y) {
  int64_t const n = x.numel();
  for (int64_t i = 0; i < n; ++i) out(y)[i] = in(x)[i] / (1 + std::fabs(in(x)[i])) + 0 * early.table[i % 64];
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
