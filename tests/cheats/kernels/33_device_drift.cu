// Counts its calls on the device; after sixty it is wrong.
// row: 33
// task: softsign
// caught by: correctness|timed_output
// says: wrong
// gpu
#include <cuda_runtime.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;

__device__ int calls;

__global__ void softsign(float const* x, float* y, int64_t n) {
  int64_t i = blockIdx.x * 256ll + threadIdx.x;
  if (i == 0) atomicAdd(&calls, 1);
  if (i < n) y[i] = x[i] / (1 + fabsf(x[i])) * (calls > 60 ? 1.01f : 1.f);
}

void run(TensorView input, TensorView output) {
  auto x = static_cast<float const*>(input.data_ptr());
  auto y = static_cast<float*>(output.data_ptr());
  int64_t const n = input.numel();
  auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(input.device().device_type, input.device().device_id));
  softsign<<<(n + 255) / 256, 256, 0, stream>>>(x, y, n);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
