// Has the driver's pool keep what is freed across synchronizations, which a caller's process does not.
// row: 70
// task: softsign
// caught by: screen:memory
// says: cudaMemPool_t
#include <cuda_runtime.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;

__global__ void softsign(float const* x, float* y, int64_t n) {
  int64_t const i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i < n) y[i] = x[i] / (1 + fabsf(x[i]));
}

void run(TensorView x, TensorView y) {
  auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(kDLCUDA, x.device().device_id));
  cudaMemPool_t pool;
  uint64_t all = UINT64_MAX;
  cudaDeviceGetDefaultMemPool(&pool, x.device().device_id);
  cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all);
  int64_t const n = x.numel();
  void* scratch;
  cudaMallocAsync(&scratch, n * sizeof(float), stream);
  softsign<<<(n + 255) / 256, 256, 0, stream>>>(static_cast<float const*>(x.data_ptr()), static_cast<float*>(scratch), n);
  cudaMemcpyAsync(y.data_ptr(), scratch, n * sizeof(float), cudaMemcpyDeviceToDevice, stream);
  cudaFreeAsync(scratch, stream);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
