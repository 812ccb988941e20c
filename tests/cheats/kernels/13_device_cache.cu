// Keeps the first result in device memory.
// row: 13
// task: softsign
// caught by: correctness|timed_output
// says: wrong
// gpu
#include <cuda_runtime.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;

__device__ float kept[1 << 16];
__device__ bool known;

__global__ void softsign(float const* x, float* y, int64_t n) {
  int64_t i = blockIdx.x * 256ll + threadIdx.x;
  if (i >= n) return;
  if (!known) kept[i] = x[i] / (1 + fabsf(x[i]));
  y[i] = kept[i];
}

__global__ void remember() { known = true; }

void run(TensorView input, TensorView output) {
  auto x = static_cast<float const*>(input.data_ptr());
  auto y = static_cast<float*>(output.data_ptr());
  int64_t const n = input.numel();
  auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(input.device().device_type, input.device().device_id));
  softsign<<<(n + 255) / 256, 256, 0, stream>>>(x, y, n);
  remember<<<1, 1, 0, stream>>>();
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
