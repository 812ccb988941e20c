// Finds the library while it runs.
// row: 25
// task: matmul
// caught by: screen:loading
// says: load code
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

extern "C" void* dlopen(char const*, int);

void run(TensorView, TensorView, TensorView) { dlopen("libcublas.so.13", 2); }

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
