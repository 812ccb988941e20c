// Half of its work goes to the stream of the first call, which a later caller's does not wait for.
// row: 71
// task: softsign
// caught by: correctness|timed_output
// gpu
#include <cuda_runtime.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;

__global__ void shifted(float const* x, float* y, int64_t n) {
  int64_t i = blockIdx.x * 256ll + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < 200000; ++k) sum = fmaf(sum, 0.5f, 1.f);
  if (i < n) y[i] = fabsf(x[i]) + sum / 2;
}

__global__ void divided(float const* x, float* y, int64_t n) {
  int64_t i = blockIdx.x * 256ll + threadIdx.x;
  if (i < n) y[i] = x[i] / y[i];
}

void run(TensorView input, TensorView output) {
  auto x = static_cast<float const*>(input.data_ptr());
  auto y = static_cast<float*>(output.data_ptr());
  int64_t const n = input.numel();
  auto now = static_cast<cudaStream_t>(TVMFFIEnvGetStream(input.device().device_type, input.device().device_id));
  static cudaStream_t const first = now;
  shifted<<<(n + 255) / 256, 256, 0, first>>>(x, y, n);
  divided<<<(n + 255) / 256, 256, 0, now>>>(x, y, n);
  if (cudaGetLastError() != cudaSuccess) TVM_FFI_THROW(RuntimeError) << "the launch failed";
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
