// Copies fresh device memory and hopes that it holds somebody's answer.
// row: 14
// task: softsign
// caught by: correctness
// says: wrong on
// gpu
#include <cuda_runtime.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;

void run(TensorView input, TensorView output) {
  auto x = static_cast<float const*>(input.data_ptr());
  auto y = static_cast<float*>(output.data_ptr());
  int64_t const n = input.numel();
  auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(input.device().device_type, input.device().device_id));
  float* found;
  cudaMallocAsync(reinterpret_cast<void**>(&found), n * sizeof(float), stream);
  cudaMemcpyAsync(y, found, n * sizeof(float), cudaMemcpyDeviceToDevice, stream);
  cudaFreeAsync(found, stream);
  (void)x;
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
