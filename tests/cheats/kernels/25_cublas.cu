// Calls the vendor's library.
// row: 25
// task: matmul
// caught by: screen:vendor_library
// says: CuTe
#include <cuda_runtime.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;

extern "C" int cublasSgemm_v2(void*, int, int, int, int, int, float const*, void const*, int, void const*, int, float*, void*, int);

void run(TensorView a, TensorView b, TensorView c) {
  float one = 1, zero = 0;
  cublasSgemm_v2(nullptr, 0, 0, 40, 24, 96, &one, b.data_ptr(), 40, a.data_ptr(), 96, &zero, c.data_ptr(), 40);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
