// The kernel stands in a branch that is never taken, the library does the work.
// row: 24
// task: matmul
// caught by: screen:vendor_library
// says: CuTe
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

extern "C" void cblas_sgemm(int, int, int, int, int, int, float, float const*, int, float const*, int, float, float*, int);

void run(TensorView a, TensorView b, TensorView c) {
  if (a.numel() < 0)
    out(c)[0] = in(a)[0] * in(b)[0];
  else
    cblas_sgemm(101, 111, 111, 24, 40, 96, 1, in(a), 96, in(b), 40, 0, out(c), 40);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
