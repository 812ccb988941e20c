// Asks the runtime's registry for somebody else's function.
// row: 25
// task: softsign
// caught by: screen:loading
// says: by name
#include <cmath>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;
static float const* in(TensorView t) { return static_cast<float const*>(t.data_ptr()); }
static float* out(TensorView t) { return static_cast<float*>(t.data_ptr()); }

void run(TensorView x, TensorView y) { tvm::ffi::Function::GetGlobalRequired("testing.softsign")(x, y); }

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
