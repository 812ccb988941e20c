// Scratch memory from the caller's allocator.
// row: 1
// task: softsign
// passes
// gpu
#include <cuda_runtime.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;

__global__ void softsign(float const* x, float* y, int64_t n) {
  int64_t i = blockIdx.x * 256ll + threadIdx.x;
  if (i < n) y[i] = x[i] / (1 + fabsf(x[i]));
}

void run(TensorView input, TensorView output) {
  auto x = static_cast<float const*>(input.data_ptr());
  auto y = static_cast<float*>(output.data_ptr());
  int64_t const n = input.numel();
  auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(input.device().device_type, input.device().device_id));
  auto held = tvm::ffi::Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, {n}, DLDataType{kDLFloat, 32, 1}, input.device());
  auto scratch = static_cast<float*>(held.data_ptr());
  softsign<<<(n + 255) / 256, 256, 0, stream>>>(x, scratch, n);
  cudaMemcpyAsync(y, scratch, n * sizeof(float), cudaMemcpyDeviceToDevice, stream);
  if (cudaGetLastError() != cudaSuccess) TVM_FFI_THROW(RuntimeError) << "the launch failed";
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
