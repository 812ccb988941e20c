// Threads of a block add into one element without taking turns.
// row: 34
// task: rowsum
// caught by: correctness|timed_output
// says: wrong
// gpu
#include <cuda_runtime.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;

__global__ void sums(float const* x, float* y) {
  __shared__ float volatile total;
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < 4000; i += 256) total = total + x[blockIdx.x * 4000 + i];
  __syncthreads();
  if (threadIdx.x == 0) y[blockIdx.x] = total;
}

void run(TensorView input, TensorView output) {
  auto x = static_cast<float const*>(input.data_ptr());
  auto y = static_cast<float*>(output.data_ptr());
  int64_t const n = input.numel();
  auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(input.device().device_type, input.device().device_id));
  sums<<<8, 256, 0, stream>>>(x, y);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
