// A narrow type by its width alone.
// row: 26
// task: rowsum
// caught by: screen:precision
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

typedef float Narrow __attribute__((mode(HF)));


void run(TensorView x, TensorView y) {
  for (int64_t r = 0; r < y.numel(); ++r) {
    double sum = 0;
    for (int i = 0; i < 4000; ++i) sum += float(Narrow(in(x)[r * 4000 + i]));
    out(y)[r] = float(sum);
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
